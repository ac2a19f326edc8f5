// CASES: pool-transaction, ordering, retry-poison, orphan-recovery and time, on the configured server.
import { jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { drainInbox } from '../../../src/testing/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { gate } from '../../support/gate.js';
import { type InboxApp, type InboxAppOptions, pushJson, startInboxApp } from '../../support/inbox-app.js';
import { waitUntil } from '../../support/wait-until.js';

let database: TestDatabase;
const running: InboxApp[] = [];

beforeAll(async () => {
  database = await migrated(await createTestDatabase('cases_handling'));
  await database.query('CREATE TABLE effect (id BIGINT AUTO_INCREMENT PRIMARY KEY, note VARCHAR(40))');
});
afterEach(async () => {
  await Promise.all(running.splice(0).map((app) => app.close()));
  for (const table of ['inbox_message', 'effect', 'mailroom_lease', 'mailroom_instance'])
    await database.query(`DELETE FROM ${table}`);
});
afterAll(() => database.drop());

async function start(options: InboxAppOptions = {}): Promise<InboxApp> {
  const app = await startInboxApp(database, options);
  running.push(app);
  return app;
}

const effects = async () =>
  (await database.query<{ note: string }>('SELECT note FROM effect ORDER BY id')).map((row) => row.note);
const statuses = async () => {
  const rows = await database.query<{ status: string; n: number }>(
    'SELECT status, COUNT(*) AS n FROM inbox_message GROUP BY status',
  );
  return Object.fromEntries(rows.map(({ status, n }) => [status, n]));
};

describe('C39 a pool of two connections', () => {
  const small = { dataSource: { poolSize: 2 } };

  test('is enough for handlers that open a transaction of their own, in twenty lanes', async () => {
    const app = await start({
      ...small,
      inbox: { enabled: true, lanes: 20, tick: 20, roundInterval: 50 },
      handlers: {
        own: ({ json }) =>
          app.dataSource.transaction((manager) =>
            manager.query('INSERT INTO effect (note) VALUES (?)', [String(json.entity)]),
          ),
      },
    });
    await Promise.all(Array.from({ length: 40 }, (_, n) => pushJson(app.inbox, { type: 'own', entity: `e${n}` })));
    await waitUntil(async () => (await statuses()).success === 40, { what: 'all are handled', timeoutMs: 40_000 });
    expect((await effects()).sort()).toEqual(Array.from({ length: 40 }, (_, n) => `e${n}`).sort());
  });

  test('is enough for pushes that join transactions of the application, twenty at the same time', async () => {
    const app = await start(small);
    const store = (n: number) =>
      app.dataSource.transaction((manager) =>
        app.inbox.receive('test', { rawBody: JSON.stringify({ type: 't', id: `m${n}` }) }, { manager }),
      );
    await Promise.all(Array.from({ length: 20 }, (_, n) => store(n)));
    expect(await statuses()).toEqual({ pending: 20 });
  });

  test('with more lanes than connections is warned about at the start', async () => {
    const warnings = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    try {
      const handlers = { own: () => undefined };
      await start({ ...small, handlers, inbox: { enabled: true, lanes: 2 } });
      expect(warnings.mock.calls).toEqual([]);
      await start({ ...small, handlers, inbox: { enabled: true, lanes: 3 } });
      expect(warnings.mock.calls.flat().join()).toMatch(/inbox\.lanes is 3, but the DataSource has 2 connections/);
      warnings.mockClear();
      await start({ ...small, handlers, inbox: { enabled: true, mode: 'competing', concurrency: 3 } });
      expect(warnings.mock.calls.flat().join()).toMatch(
        /inbox\.concurrency is 3, but the DataSource has 2 connections/,
      );
    } finally {
      warnings.mockRestore();
    }
  });
});

test('C41 connections that are killed between the statements of fifty handlers: the error that came first is stored, all are tried again, and the pool is whole', async () => {
  const stored: string[] = [];
  const app = await start({
    dataSource: { poolSize: 3 },
    handlers: {
      killed: async ({ id, json }, ctx) => {
        const manager = ctx.manager;
        await manager.query('INSERT INTO effect (note) VALUES (?)', [`one ${json.n}`]);
        if (ctx.attempt === 1) {
          const [row] = await manager.query('SELECT CONNECTION_ID() AS id');
          await database.query(`KILL ${Number(row.id)}`);
        } else {
          const [row] = await manager.query('SELECT error_message AS text FROM inbox_message WHERE id = ?', [id]);
          stored.push(row.text);
        }
        await manager.query('INSERT INTO effect (note) VALUES (?)', [`two ${json.n}`]);
      },
    },
  });
  for (let n = 0; n < 50; n++) await pushJson(app.inbox, { type: 'killed', n });
  await drainInbox(app.inbox);
  expect(await statuses()).toEqual({ success: 50 });
  expect(await effects()).toHaveLength(100);
  expect(stored).toHaveLength(50);
  // What the driver said, not that the ROLLBACK after it failed too.
  for (const text of stored) expect(text).toMatch(/connection (is|was|lost)|closed state|socket|ECONNRESET|EPIPE/i);
  // Every place of the pool can be had again.
  const runners = [1, 2, 3].map(() => app.dataSource.createQueryRunner());
  await Promise.all(runners.map((runner) => runner.connect()));
  await Promise.all(runners.map((runner) => runner.release()));
  running.pop();
  await app.close();
});

test('C45 statements at the same time, one of which fails: nothing of them is kept, and none is committed by itself later', async () => {
  const late: Promise<unknown>[] = [];
  const app = await start({
    inbox: { maxRetry: 0 },
    handlers: {
      together: async (_message, { manager }) => {
        const slow = manager
          .query('SELECT 1')
          .then(() => manager.query('SELECT 1'))
          .then(() => manager.query("INSERT INTO effect (note) VALUES ('late')"));
        late.push(slow.catch(() => undefined));
        await Promise.all([
          manager.query("INSERT INTO effect (note) VALUES ('first')"),
          manager.query('INSERT INTO no_such_table VALUES (1)'),
          slow,
        ]);
      },
    },
  });
  for (let n = 0; n < 50; n++) await pushJson(app.inbox, { type: 'together' });
  await drainInbox(app.inbox);
  await Promise.all(late);
  expect(await statuses()).toEqual({ failed: 50 });
  expect(await effects()).toEqual([]);
});

test('C45 a statement that comes while the COMMIT is under way is refused, it would commit by itself', async () => {
  const answers: string[] = [];
  const app = await start({
    handlers: {
      leaks: async (_message, { manager }) => {
        await manager.query("INSERT INTO effect (note) VALUES ('in time')");
        const connection = await manager.queryRunner?.connect();
        const query = connection.query.bind(connection);
        connection.query = (sql: unknown, ...rest: unknown[]) => {
          const sent = query(sql, ...rest);
          if (sql === 'COMMIT') {
            connection.query = query;
            manager.query("INSERT INTO effect (note) VALUES ('behind it')").then(
              () => answers.push('sent'),
              () => answers.push('refused'),
            );
          }
          return sent;
        };
      },
    },
  });
  await pushJson(app.inbox, { type: 'leaks' });
  await drainInbox(app.inbox);
  await waitUntil(() => answers.length > 0, { what: 'the late statement has its answer' });
  expect(answers).toEqual(['refused']);
  expect(await effects()).toEqual(['in time']);
});

test('C69 an entity that always fails waits alone: ninety-nine others with ten messages each are handled meanwhile', async () => {
  const app = await start({
    inbox: { backoff: ['1h'], batchSize: 1_000 },
    handlers: {
      step: ({ json }) => {
        if (json.entity === 'k') throw new Error('always');
      },
    },
  });
  for (let n = 0; n < 10; n++) {
    await Promise.all(
      Array.from({ length: 100 }, (_, e) => pushJson(app.inbox, { type: 'step', entity: e === 0 ? 'k' : `e${e}` })),
    );
  }
  await drainInbox(app.inbox);
  expect(await statuses()).toEqual({ success: 990, pending: 1, held: 9 });
  expect(app.events('retrying')).toHaveLength(1);
});

test('C71 the connections are killed when the last failure of a message is written: it is failed, and the next of its entity runs', async () => {
  const seen: unknown[] = [];
  const app = await start({
    inbox: { maxRetry: 0 },
    handlers: {
      last: async ({ json }) => {
        seen.push(json.n);
        if (json.n !== 1) return;
        await killConnections();
        throw new Error('the last one');
      },
    },
  });
  await pushJson(app.inbox, { type: 'last', entity: 'k', n: 1 });
  await pushJson(app.inbox, { type: 'last', entity: 'k', n: 2 });
  await drainInbox(app.inbox);
  expect(seen).toEqual([1, 2]);
  expect(await database.query('SELECT status, error_message FROM inbox_message ORDER BY id')).toEqual([
    { status: 'failed', error_message: 'the last one' },
    { status: 'success', error_message: null },
  ]);
});

/** Of the applications; not the one that asks. */
async function killConnections(): Promise<void> {
  const others = await database.query<{ id: number }>(
    'SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()',
  );
  for (const { id } of others) await database.query(`KILL ${Number(id)}`).catch(() => undefined);
}

test.each([1, 3, 12])(
  'C75 with %d instances a message that always fails is tried maxRetry + 1 times',
  async (count) => {
    let attempts = 0;
    const handlers = {
      bad: () => {
        attempts++;
        throw new Error('always');
      },
    };
    const inbox = { enabled: true, tick: 10, roundInterval: 10, maxRetry: 7, backoff: [20], controlPool: 2 };
    const apps = await Promise.all(
      Array.from({ length: count }, () => start({ inbox, handlers, dataSource: { poolSize: 2 } })),
    );
    await pushJson((apps[0] as InboxApp).inbox, { type: 'bad' });
    await waitUntil(async () => (await statuses()).failed === 1, { what: 'it failed', timeoutMs: 40_000 });
    expect(attempts).toBe(8);
    expect(await database.query('SELECT attempts FROM inbox_message')).toEqual([{ attempts: 8 }]);
  },
);

test('C77 rows that cannot be read do not stop the others: a cut body fails, an unknown type and an unknown status wait, missing headers do not matter', async () => {
  const seen: string[] = [];
  const app = await start({ handlers: { good: ({ json }) => void seen.push(String(json.n)) } });
  for (let n = 0; n < 100; n++) {
    await pushJson(app.inbox, { type: 'good', n });
    if (n % 25 !== 0) continue;
    for (const [type, body, status] of [
      ['good', '{"n":', 'pending'],
      ['good', '', 'pending'],
      ['nobody-knows', '{}', 'pending'],
      ['good', '{"n":"odd status"}', 'bogus'],
      ['good', '{"n":"no headers"}', 'pending'],
    ])
      await database.query(
        "INSERT INTO inbox_message (source, type, headers, body, status) VALUES ('test', ?, NULL, ?, ?)",
        [type, body, status],
      );
  }
  // A round that meets a type without a handler yields its lane.
  for (let round = 0; round < 20; round++) await drainInbox(app.inbox);
  expect(seen.filter((n) => n === 'no headers')).toHaveLength(4);
  expect(seen.filter((n) => n !== 'no headers').map(Number)).toEqual(Array.from({ length: 100 }, (_, n) => n));
  expect(await statuses()).toEqual({ success: 104, failed: 8, pending: 4, bogus: 4 });
  const failed = await database.query("SELECT DISTINCT error_kind FROM inbox_message WHERE status = 'failed'");
  expect(failed).toEqual([{ error_kind: 'undecodable' }]);
});

test('C79 a handler that ignores its timeout is not run again beside itself, and what it writes late is refused', async () => {
  const end = gate();
  let now = 0;
  let most = 0;
  const app = await start({
    inbox: { enabled: true, tick: 10, roundInterval: 10, handlerTimeout: 300, maxRetry: 3 },
    handlers: {
      stubborn: async ({ json }, ctx) => {
        most = Math.max(most, ++now);
        const { manager } = ctx;
        if (json.n === 1 && ctx.attempt === 1) await end.opened;
        try {
          await manager.query('INSERT INTO effect (note) VALUES (?)', [`${json.n}: attempt ${ctx.attempt}`]);
        } finally {
          now--;
        }
      },
    },
  });
  await pushJson(app.inbox, { type: 'stubborn', entity: 'e', n: 1 });
  await waitUntil(() => app.events('round').filter((round) => round.messages > 0).length > 0, { what: 'it timed out' });
  // The entity's next message is looked at and waits.
  await pushJson(app.inbox, { type: 'stubborn', entity: 'e', n: 2 });
  await waitUntil(async () => (await statuses()).held === 1, { what: 'its follower stepped aside' });
  expect(await statuses()).toEqual({ processing: 1, held: 1 });
  end.open();
  await waitUntil(async () => (await statuses()).success === 2, { what: 'both are handled' });
  expect(most).toBe(1);
  const [first, second, ...others] = await effects();
  expect(first).toMatch(/^1: attempt [2-4]$/);
  expect(second).toMatch(/^2: /);
  expect(others).toEqual([]);
});

describe('C21 an instance that does not know the handler of a message', () => {
  test('gives it back after a crash and leaves it to an instance that does, without failing it', async () => {
    const knows = await start({
      handlers: { x: (_m, ctx) => ctx.manager.query("INSERT INTO effect (note) VALUES ('x')") },
    });
    const knowsNot = await start({ handlers: { y: () => undefined } });
    const id = await pushJson(knows.inbox, { type: 'x' });
    // As a third instance left it that was killed in its handler.
    await database.query(
      `UPDATE inbox_message SET status = 'processing', attempts = 1, claim_token = UNHEX(REPEAT('00', 16)),
              claimed_by = 'gone:1:x!', claimed_until = UTC_TIMESTAMP(3) - INTERVAL 1 SECOND WHERE id = ?`,
      [id],
    );
    await knowsNot.inbox.recoverOnce();
    expect(await statuses()).toEqual({ pending: 1 });
    await drainInbox(knowsNot.inbox);
    expect(await statuses()).toEqual({ pending: 1 });
    await drainInbox(knows.inbox);
    expect(await effects()).toEqual(['x']);
    expect(await statuses()).toEqual({ success: 1 });
  });
});

test('C19 twenty messages that a killed instance had in work are given back together, those of a living one are left alone', async () => {
  const app = await start({ inbox: { mode: 'competing' }, handlers: { x: () => undefined } });
  for (let n = 0; n < 25; n++) await pushJson(app.inbox, { type: 'x', id: `m${n}` });
  await database.query(
    `UPDATE inbox_message SET status = 'processing', attempts = 1, claim_token = UNHEX(REPEAT('11', 16)),
            claimed_by = 'host:1:x', claimed_until = UTC_TIMESTAMP(3) + INTERVAL IF(id % 5 = 0, 1, -1) MINUTE`,
  );
  await app.inbox.recoverOnce();
  expect(await statuses()).toEqual({ pending: 20, processing: 5 });
  await drainInbox(app.inbox);
  expect(await statuses()).toEqual({ success: 20, processing: 5 });
});

describe.each(['Z', 'UTC', 'local', '+00:00', '+05:30', 'Europe/Paris'])(
  "C87 with timezone '%s' in the application's options",
  (timezone) => {
    // The driver says on the console which of them it does not know.
    beforeAll(() => void jest.spyOn(console, 'error').mockImplementation(() => undefined));
    afterAll(() => jest.restoreAllMocks());

    test('a message tells when it was received, and a retry is due when it should be', async () => {
      const received: (string | null)[] = [];
      const app = await start({
        dataSource: { timezone },
        inbox: { backoff: ['1h'] },
        handlers: {
          timed: (message, ctx) => {
            received.push(message.receivedAt);
            if (ctx.attempt === 1) throw new Error('not yet');
          },
        },
      });
      await pushJson(app.inbox, { type: 'timed' });
      await drainInbox(app.inbox);
      const [row] = await database.query<{ at: string; wait: number }>(
        `SELECT CAST(received_at AS CHAR) AS at, TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(3), next_attempt_at) AS wait FROM inbox_message`,
      );
      expect(received).toEqual([row?.at]);
      expect(row?.wait).toBeGreaterThan(3_500);
      expect(row?.wait).toBeLessThanOrEqual(3_600);
    });
  },
);
