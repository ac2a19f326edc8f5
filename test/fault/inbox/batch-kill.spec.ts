// Instances that are killed within a batch. Long form: KILLS=50 MESSAGES=2000.
import type { Child } from '../../support/child.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import {
  allTerminal,
  createEffectTables,
  outOfOrder,
  startInstance,
  statusCounts,
  storeMessages,
  wrongEffects,
} from '../../support/inbox-fleet.js';
import { waitUntil } from '../../support/wait-until.js';

const kills = Number(process.env.KILLS ?? 3);
const messages = Number(process.env.MESSAGES ?? 240);
const ttl = 1_000;

let database: TestDatabase;
const children = new Map<string, Child>();

beforeAll(async () => {
  database = await migrated(await createTestDatabase('batch_kill'));
  await createEffectTables(database);
});
afterEach(async () => {
  for (const child of children.values()) await child.kill();
  children.clear();
  for (const table of ['inbox_message', 'effect', 'profile', 'mailroom_lease', 'mailroom_instance'])
    await database.query(`DELETE FROM ${table}`);
});
afterAll(() => database.drop());

async function start(name: string, inbox: Parameters<typeof startInstance>[2]): Promise<Child> {
  const child = await startInstance(database, name, inbox);
  children.set(name, child);
  return child;
}

/** One instance that is started again whenever it ends, until every message is finished; how often that was. */
async function supervised(inbox: Parameters<typeof startInstance>[2]): Promise<number> {
  let crashes = 0;
  let over = false;
  const supervision = (async () => {
    while (!over) {
      await (await start('a', inbox)).ended;
      if (!over) crashes++;
    }
  })();
  try {
    await allTerminal(database, 90_000);
  } finally {
    over = true;
    await children.get('a')?.kill();
    await supervision;
  }
  return crashes;
}

test('a batch whose instance is killed in the handler is done again by another, and its effects happen once', async () => {
  await storeMessages(
    database,
    Array.from({ length: 20 }, (_, n) => ({
      type: 'batch',
      entity: `e${n % 5}`,
      ...(n === 0 ? { sleepMs: 60_000 } : {}),
    })),
  );
  const a = await start('a', { lease: { ttl }, handlerTimeout: '2m' });
  expect(String(await a.line(/^batch /)).split(' ')).toHaveLength(21);
  await waitUntil(async () => (await statusCounts(database)).processing === 20, { what: 'all of them are claimed' });
  await a.kill();
  expect(await database.query('SELECT id FROM effect')).toEqual([]);
  await database.query(`UPDATE inbox_message SET body = '{}' WHERE status = 'processing'`);
  await start('b', { lease: { ttl } });
  await allTerminal(database);
  expect(await statusCounts(database)).toEqual({ success: 20 });
  expect(await wrongEffects(database)).toEqual([]);
  expect(await database.query('SELECT DISTINCT instance FROM effect')).toEqual([{ instance: 'b' }]);
});

test(
  `${kills} kills at random moments within batches: nothing is lost or applied twice, the order of each entity is kept`,
  async () => {
    const options = { lanes: 4, lease: { ttl }, maxRetry: 50 };
    const bodies = Array.from({ length: messages }, (_, n) => ({
      type: n < messages / 2 ? 'batch' : 'grouped',
      entity: `e${n % 40}`,
      ...(n % 10 === 0 ? { sleepMs: 20 } : {}),
    }));
    await storeMessages(database, bodies, 4);
    await Promise.all(['a', 'b'].map((name) => start(name, options)));
    for (let kill = 0; kill < kills; kill++) {
      const name = kill % 2 === 0 ? 'a' : 'b';
      const before = (await statusCounts(database)).success ?? 0;
      // A moment that depends on progress and chance, not on the clock alone.
      const enough = Math.min(messages, before + 1 + Math.floor(Math.random() * 20));
      await waitUntil(async () => ((await statusCounts(database)).success ?? 0) >= enough, {
        what: 'some progress before the next kill',
        timeoutMs: 30_000,
      });
      await children.get(name)?.kill();
      await start(name, options);
    }
    await allTerminal(database, 100_000);
    expect(await statusCounts(database)).toEqual({ success: messages });
    expect(await wrongEffects(database)).toEqual([]);
    expect(await outOfOrder(database)).toEqual([]);
  },
  kills * 15_000 + 120_000,
);

test.each([
  ['batch', 1],
  ['grouped', 4],
])(
  "a message that kills its process within '%s' on %i lanes ends as failed, its neighbours as successes",
  async (type, lanes) => {
    const bodies = Array.from({ length: 60 }, (_, n) => ({
      type,
      entity: n === 7 ? 'poison' : `e${n % 9}`,
      ...(n === 7 ? { crash: true } : {}),
    }));
    await storeMessages(database, bodies, lanes);
    // A lease that a busy machine does not lose: with it would go one of the two attempts.
    const crashes = await supervised({ lanes, lease: { ttl: 3 * ttl }, maxRetry: 1 });
    const failed = await database.query(
      "SELECT CAST(entity_key AS CHAR) AS entity, attempts, error_kind, error_message FROM inbox_message WHERE status = 'failed'",
    );
    // In the batch, then alone.
    expect(failed).toEqual([
      { entity: 'poison', attempts: 2, error_kind: 'crashed', error_message: expect.stringContaining('attempt 2') },
    ]);
    expect(await statusCounts(database)).toEqual({ success: 59, failed: 1 });
    expect(crashes).toBe(2);
    expect(await wrongEffects(database)).toEqual([]);
  },
);
