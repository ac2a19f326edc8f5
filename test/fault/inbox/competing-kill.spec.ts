// Competing instances that are killed while they work. Long form: KILLS=100 MESSAGES=2000.
import type { Child } from '../../support/child.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import {
  allTerminal,
  createEffectTables,
  startInstance,
  statusCounts,
  storeMessages,
  wrongEffects,
} from '../../support/inbox-fleet.js';
import { waitUntil } from '../../support/wait-until.js';

const kills = Number(process.env.KILLS ?? 4);
const messages = Number(process.env.MESSAGES ?? 300);
const options = { mode: 'competing', handlerTimeout: 800, orphanAfter: 1_000, recoveryInterval: 200 } as const;

let database: TestDatabase;
const children = new Map<string, Child>();

beforeAll(async () => {
  database = await migrated(await createTestDatabase('competing_kill'));
  await createEffectTables(database);
});
afterEach(async () => {
  for (const child of children.values()) await child.kill();
  children.clear();
  for (const table of ['inbox_message', 'effect']) await database.query(`DELETE FROM ${table}`);
});
afterAll(() => database.drop());

async function start(name: string, inbox: Parameters<typeof startInstance>[2]): Promise<Child> {
  const child = await startInstance(database, name, inbox);
  children.set(name, child);
  return child;
}

test(
  `${kills} kills at random moments: nothing is lost and nothing is applied twice`,
  async () => {
    await storeMessages(
      database,
      Array.from({ length: messages }, (_, n) => ({ n, ...(n % 10 === 0 ? { sleepMs: 20 } : {}) })),
    );
    await Promise.all(['a', 'b'].map((name) => start(name, { ...options, maxRetry: 50 })));
    for (let kill = 0; kill < kills; kill++) {
      const name = kill % 2 === 0 ? 'a' : 'b';
      const before = (await statusCounts(database)).success ?? 0;
      await waitUntil(
        async () =>
          ((await statusCounts(database)).success ?? 0) >=
          Math.min(messages, before + 1 + Math.floor(Math.random() * 20)),
        { what: 'some progress before the next kill', timeoutMs: 30_000 },
      );
      await children.get(name)?.kill();
      await start(name, { ...options, maxRetry: 50 });
    }
    await allTerminal(database, 100_000);
    expect(await statusCounts(database)).toEqual({ success: messages });
    expect(await wrongEffects(database)).toEqual([]);
  },
  kills * 15_000 + 120_000,
);

test('a message that kills its process ends as failed, and those beside it do not', async () => {
  const bodies = Array.from({ length: 60 }, (_, n) => (n === 5 ? { crash: true } : { n, sleepMs: 10 }));
  await storeMessages(database, bodies);
  let running = true;
  const supervised = (async () => {
    while (running) {
      const child = await start('a', { ...options, maxRetry: 1 });
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
  expect(await statusCounts(database)).toEqual({ success: 59, failed: 1 });
  expect(await database.query("SELECT error_kind FROM inbox_message WHERE status = 'failed'")).toEqual([
    { error_kind: 'crashed' },
  ]);
  expect(await wrongEffects(database)).toEqual([]);
});
