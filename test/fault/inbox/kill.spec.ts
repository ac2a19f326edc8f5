// Instances that are killed while they work. Long form: KILLS=100 MESSAGES=2000.
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

const kills = Number(process.env.KILLS ?? 6);
const messages = Number(process.env.MESSAGES ?? 400);
const ttl = 1_000;

let database: TestDatabase;
const children = new Map<string, Child>();

beforeAll(async () => {
  database = await migrated(await createTestDatabase('kill'));
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

test(
  `${kills} kills at random moments: nothing is lost, nothing is applied twice, the order of each entity is kept`,
  async () => {
    const options = { lanes: 4, lease: { ttl }, maxRetry: 50 };
    const bodies = Array.from({ length: messages }, (_, n) => ({
      entity: `e${n % 40}`,
      n,
      ...(n % 10 === 0 ? { sleepMs: 20 } : {}),
    }));
    await storeMessages(database, bodies, 4);
    await Promise.all(['a', 'b'].map((name) => start(name, options)));
    for (let kill = 0; kill < kills; kill++) {
      const name = kill % 2 === 0 ? 'a' : 'b';
      const victim = children.get(name);
      const before = (await statusCounts(database)).success ?? 0;
      // A moment that depends on progress and chance, not on the clock alone.
      await waitUntil(
        async () =>
          ((await statusCounts(database)).success ?? 0) >=
          Math.min(messages, before + 1 + Math.floor(Math.random() * 20)),
        {
          what: 'some progress before the next kill',
          timeoutMs: 30_000,
        },
      );
      await victim?.kill();
      await start(name, options);
    }
    await allTerminal(database, 100_000);
    expect(await statusCounts(database)).toEqual({ success: messages });
    expect(await wrongEffects(database)).toEqual([]);
    expect(await outOfOrder(database)).toEqual([]);
  },
  kills * 15_000 + 120_000,
);

test('the lane of a killed holder is taken over within its lease and one tick, and the interrupted message goes first', async () => {
  await storeMessages(database, [
    { sleepMs: 60_000, entity: 'first' },
    ...Array.from({ length: 5 }, (_, n) => ({ entity: `e${n}` })),
  ]);
  const a = await start('a', { lease: { ttl }, handlerTimeout: '2m' });
  const handling = await a.line(/^handling \d+ 1$/);
  const id = String(handling).split(' ')[1];
  const b = await start('b', { lease: { ttl }, handlerTimeout: '2m' });
  const killedAt = performance.now();
  await a.kill();
  const first = String(await b.line(/^handling /, 30_000));
  const tookMs = performance.now() - killedAt;
  expect(first).toBe(`handling ${id} 2`);
  // ttl 1 s + tick 50 ms, with room for a busy machine; without a takeover it would be recovery's or nobody's.
  expect(tookMs).toBeLessThan(ttl + 50 + 5_000);
});

test('a message that kills its process ends as failed, and everything else is done', async () => {
  const bodies = Array.from({ length: 60 }, (_, n) =>
    n === 5 ? { entity: 'poison', crash: true } : { entity: `e${n % 7}` },
  );
  await storeMessages(database, bodies);
  let crashes = 0;
  const options = { lease: { ttl }, maxRetry: 2 };
  let running = true;
  const supervised = (async () => {
    while (running) {
      const child = await start('a', options);
      await child.ended;
      if (running) crashes++;
    }
  })();
  try {
    await allTerminal(database, 60_000);
  } finally {
    running = false;
    await children.get('a')?.kill();
    await supervised;
  }
  expect(crashes).toBe(3);
  expect(await statusCounts(database)).toEqual({ success: 59, failed: 1 });
  const [poison] = await database.query("SELECT attempts, error_kind FROM inbox_message WHERE status = 'failed'");
  expect(poison).toEqual({ attempts: 3, error_kind: 'crashed' });
  expect(await wrongEffects(database)).toEqual([]);
});

test('beside a poison message in another lane, innocent messages are not ended', async () => {
  const bodies = Array.from({ length: 120 }, (_, n) =>
    n === 3 ? { entity: 'poison', crash: true } : { entity: `e${n}`, sleepMs: 30 },
  );
  await storeMessages(database, bodies, 8);
  let running = true;
  const supervised = (async () => {
    while (running) {
      const child = await start('a', { lanes: 8, lease: { ttl }, maxRetry: 1 });
      await child.ended;
    }
  })();
  try {
    await allTerminal(database, 60_000);
  } finally {
    running = false;
    await children.get('a')?.kill();
    await supervised;
  }
  expect(await statusCounts(database)).toEqual({ success: 119, failed: 1 });
  expect(await wrongEffects(database)).toEqual([]);
});

test('a message of a handler that is not transactional comes back after orphanAfter', async () => {
  await storeMessages(database, [{ type: 'far', sleepMs: 60_000 }, { entity: 'e' }]);
  const options = { lease: { ttl: 800 }, handlerTimeout: 1_000, orphanAfter: 2_500 };
  const a = await start('a', { ...options, handlerTimeout: 2_000 });
  await a.line(/^handling \d+ 1$/);
  await a.kill();
  const b = await start('b', options);
  await b.line(/^handling \d+ 2$/, 30_000);
});
