// Several instances and several lanes: who consumes what, in which order, and what happens when the count changes.
import type { InboxOptions } from '../../../src/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { type InboxApp, pushJson, startInboxApp } from '../../support/inbox-app.js';
import { waitUntil } from '../../support/wait-until.js';

let database: TestDatabase;
const running: InboxApp[] = [];

beforeAll(async () => {
  database = await migrated(await createTestDatabase('lanes'));
  await database.query(
    'CREATE TABLE applied (id BIGINT AUTO_INCREMENT PRIMARY KEY, entity VARCHAR(20), n INT, lane INT, instance VARCHAR(10))',
  );
});
afterEach(async () => {
  await Promise.all(running.splice(0).map((app) => app.close()));
  for (const table of ['inbox_message', 'applied', 'mailroom_lease', 'mailroom_instance'])
    await database.query(`DELETE FROM ${table}`);
});
afterAll(() => database.drop());

async function start(
  name: string,
  inbox: Partial<InboxOptions>,
  fails: (entity: string, n: number, attempt: number) => boolean = () => false,
): Promise<InboxApp> {
  const app = await startInboxApp(database, {
    inbox: { tick: 20, roundInterval: 40, recoveryInterval: 200, maxRetry: 20, backoff: [10], ...inbox },
    handlers: {
      step: async (message, ctx) => {
        const { entity, n } = message.json as { entity: string; n: number };
        if (fails(entity, n, ctx.attempt)) throw new Error('transient');
        await ctx.manager.query(
          'INSERT INTO applied (entity, n, lane, instance) SELECT ?, ?, lane, ? FROM inbox_message WHERE id = ?',
          [entity, n, name, message.id],
        );
      },
    },
  });
  running.push(app);
  return app;
}

const pushes = async (app: InboxApp, entities: number, from: number, to: number) => {
  for (let n = from; n < to; n++) {
    await Promise.all(
      Array.from({ length: entities }, (_, e) =>
        pushJson(app.inbox, { type: 'step', entity: `e${e}`, n, id: `e${e}-${n}` }),
      ),
    );
  }
};
const open = async () =>
  (
    await database.query<{ n: number }>(
      "SELECT COUNT(*) AS n FROM inbox_message WHERE status NOT IN ('success', 'failed')",
    )
  )[0]?.n;
const allDone = () =>
  waitUntil(async () => (await open()) === 0, { what: 'everything is handled', timeoutMs: 50_000, intervalMs: 50 });

async function expectOrder(entities: number, steps: number): Promise<void> {
  const rows = await database.query<{ entity: string; n: number }>('SELECT entity, n FROM applied ORDER BY id');
  const byEntity = groupBy(rows);
  expect(byEntity.size).toBe(entities);
  const expected = Array.from({ length: steps }, (_, n) => n);
  for (const [entity, list] of byEntity) expect([entity, list.map((row) => row.n)]).toEqual([entity, expected]);
}
function groupBy(rows: { entity: string; n: number }[]): Map<string, { entity: string; n: number }[]> {
  const groups = new Map<string, { entity: string; n: number }[]>();
  for (const row of rows) groups.set(row.entity, [...(groups.get(row.entity) ?? []), row]);
  return groups;
}

test('eight lanes, three instances, transient failures, one instance leaving: each entity is applied in order, once', async () => {
  const fails = (entity: string, n: number, attempt: number) =>
    attempt === 1 && (Number(entity.slice(1)) * 7 + n) % 10 === 0;
  const options = { enabled: true, lanes: 8, lease: { ttl: 1_500 } };
  const a = await start('a', options, fails);
  const b = await start('b', options, fails);
  const c = await start('c', options, fails);
  await pushes(a, 30, 0, 5);
  await pushes(b, 30, 5, 10);
  running.splice(running.indexOf(c), 1);
  await c.close();
  await pushes(b, 30, 10, 15);
  await allDone();
  await expectOrder(30, 15);
});

test('one lane has one consumer at a time, whoever it is', async () => {
  const apps = [];
  for (const name of ['a', 'b', 'c']) apps.push(await start(name, { enabled: true, lanes: 1 }));
  for (let n = 0; n < 40; n++)
    await pushJson((apps[n % 3] as InboxApp).inbox, { type: 'step', entity: 'e0', n, id: `${n}` });
  await allDone();
  await expectOrder(1, 40);
});

test('lanes are shared: an instance that joins gets its part, and takes over what the other leaves', async () => {
  const options = { enabled: true, lanes: 8, lease: { ttl: 900 }, batchSize: 1_000 };
  const slow = () => false;
  const a = await start('a', options, slow);
  let pushing = true;
  const feeding = (async () => {
    // Work for all lanes all the time, and never more than a slow machine gets through in the end.
    for (let n = 0; pushing; n++) {
      await pushes(a, 24, n, n + 1);
      await waitUntil(async () => !pushing || Number(await open()) < 60, {
        what: 'the backlog is small',
        timeoutMs: 30_000,
      });
    }
  })();
  try {
    await waitUntil(async () => (await database.query("SELECT 1 FROM applied WHERE instance = 'a' LIMIT 1")).length, {
      what: 'a works',
    });
    await start('b', options, slow);
    await waitUntil(
      async () =>
        ((await database.query<{ n: number }>("SELECT COUNT(DISTINCT lane) AS n FROM applied WHERE instance = 'b'"))[0]
          ?.n ?? 0) >= 3,
      {
        what: 'b works on several lanes',
        timeoutMs: 20_000,
      },
    );
    running.splice(running.indexOf(a), 1);
  } finally {
    pushing = false;
    await feeding;
  }
  await a.close();
  await allDone();
  const lanes = await database.query<{ n: number }>('SELECT COUNT(DISTINCT lane) AS n FROM applied');
  expect(lanes[0]?.n).toBeGreaterThanOrEqual(6);
});

test('lanes changed from 1 to 8 to 2: nothing is lost and every entity keeps its order', async () => {
  const blocked = (_entity: string, n: number, attempt: number) => n === 3 && attempt < 4;
  let app = await start('a', { lanes: 1 }, blocked);
  await pushes(app, 12, 0, 4);
  await app.inbox.runOnce();
  await restart(8);
  await pushes(app, 12, 4, 8);
  await app.inbox.runOnce();
  await restart(2);
  await pushes(app, 12, 8, 12);
  await app.inbox.recoverOnce();
  for (let round = 0; (await open()) !== 0 && round < 500; round++) {
    await app.inbox.runOnce();
    await app.inbox.recoverOnce();
  }
  await expectOrder(12, 12);

  async function restart(lanes: number): Promise<void> {
    running.splice(running.indexOf(app), 1);
    await app.close();
    app = await start('a', { lanes }, blocked);
  }
});

test('two instances with different lane counts, as in a rolling deploy, keep the order of an entity', async () => {
  const fails = (_entity: string, n: number, attempt: number) => attempt === 1 && n % 4 === 0;
  const old = await start('old', { enabled: true, lanes: 1, lease: { ttl: 1_500 } }, fails);
  const young = await start('new', { enabled: true, lanes: 8, lease: { ttl: 1_500 } }, fails);
  for (let n = 0; n < 12; n += 2) {
    await pushes(old, 10, n, n + 1);
    await pushes(young, 10, n + 1, n + 2);
  }
  await allDone();
  await expectOrder(10, 12);
});
