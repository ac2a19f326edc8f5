// Very many followers of one waiting message, or messages behind an open breaker: they are moved out of the queue beside the
// consumer, so nobody waits for it.
import { createConnection } from 'mysql2/promise';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { type InboxApp, startInboxApp } from '../../support/inbox-app.js';
import { startOutboxApp } from '../../support/outbox-app.js';
import { numbers } from '../../support/plans.js';
import { waitUntil } from '../../support/wait-until.js';

const followers = 1_300;
const unit = '17446744073709551615';
let database: TestDatabase;
let running: { close(): Promise<void> } | undefined;

beforeAll(async () => {
  database = await migrated(await createTestDatabase('crowd'));
});
afterEach(async () => {
  await running?.close();
  running = undefined;
  await database.query('DELETE FROM inbox_message');
  await database.query('DELETE FROM outbox_message');
});
afterAll(() => database.drop());

async function fillInbox(type: string, count: number, open: string | null, age: string): Promise<void> {
  await database.query(
    `INSERT INTO inbox_message (source, type, open_entity, body, status, next_attempt_at, received_at)
     SELECT 'test', '${type}', ?, CONCAT('{"n":', n, '}'), 'pending', UTC_TIMESTAMP(3) - INTERVAL ${age}, UTC_TIMESTAMP(3)
       FROM ${numbers(0, count)} ORDER BY n`,
    [open],
  );
}

/** Locks one row for the time of `work`: whoever moves it has to wait. */
async function whileLocked(table: string, id: number, work: () => Promise<void>): Promise<void> {
  const connection = await createConnection(database.url);
  try {
    await connection.query('START TRANSACTION');
    await connection.query(`SELECT 1 FROM ${table} WHERE id = ? FOR UPDATE`, [id]);
    await work();
  } finally {
    await connection.end();
  }
}

const idOfFollower = async (table: string, column: string, n: number): Promise<number> => {
  const [row] = await database.query<{ id: number }>(
    `SELECT id FROM ${table} WHERE ${column} = ? ORDER BY id LIMIT 1 OFFSET ${n}`,
    [unit],
  );
  return Number(row?.id);
};
const countOf = async (table: string, status: string) => {
  const [row] = await database.query<{ n: number }>(`SELECT COUNT(*) AS n FROM ${table} WHERE status = ?`, [status]);
  return Number(row?.n);
};

async function startInbox(seen: number[], batchSize: number): Promise<InboxApp> {
  let fails = true;
  const app = await startInboxApp(database, {
    inbox: { backoff: ['1h'], batchSize },
    handlers: {
      stuck: ({ json }) => {
        if (fails) {
          fails = false;
          throw new Error('not yet');
        }
        seen.push(Number(json.n));
      },
      other: () => undefined,
    },
  });
  running = app;
  return app;
}

test('another message is handled while the crowd cannot move, and the crowd stands aside when it can', async () => {
  await fillInbox('stuck', followers + 1, unit, '2 HOUR');
  await fillInbox('other', 1, null, '1 HOUR');
  const app = await startInbox([], 50);
  // The first step moves 500; this one is beyond it.
  await whileLocked('inbox_message', await idOfFollower('inbox_message', 'open_entity', 700), async () => {
    await app.inbox.runOnce();
    expect(app.events('succeeded')).toMatchObject([{ type: 'other' }]);
    // The step that met the lock failed, told so, and left what it had to move in the queue.
    expect(app.events('round-failed')).toHaveLength(1);
    expect(await countOf('inbox_message', 'held')).toBe(500);
  });
  await app.inbox.runOnce();
  expect(await countOf('inbox_message', 'held')).toBe(followers);
  expect(await countOf('inbox_message', 'pending')).toBe(1);
});

test('when its head is done a crowd comes back in order', async () => {
  await fillInbox('stuck', followers + 1, unit, '2 HOUR');
  const seen: number[] = [];
  const app = await startInbox(seen, 120);
  await app.inbox.runOnce();
  expect(await countOf('inbox_message', 'held')).toBe(followers);
  await database.query("UPDATE inbox_message SET next_attempt_at = '2001-01-01' WHERE status = 'pending'");
  await app.inbox.runOnce();
  expect(seen).toEqual(Array.from({ length: 120 }, (_, n) => n));
});

test('another message is handled while a crowd behind an open breaker cannot move', async () => {
  await fillInbox('broken', followers, null, '2 HOUR');
  await fillInbox('other', 1, null, '1 HOUR');
  const app = await startInboxApp(database, {
    inbox: { backoff: ['1h'], breaker: { minimumCalls: 5, window: '1h', openFor: '1h' } },
    handlers: { broken: () => Promise.reject(new Error('away')), other: () => undefined },
  });
  running = app;
  const [row] = await database.query<{ id: number }>('SELECT MIN(id) + 700 AS id FROM inbox_message');
  await whileLocked('inbox_message', Number(row?.id), async () => {
    await app.inbox.runOnce();
    expect(app.events('succeeded')).toMatchObject([{ type: 'other' }]);
    expect(app.events('round-failed')).toHaveLength(1);
  });
  await app.inbox.runOnce();
  const due = await database.query(
    "SELECT id FROM inbox_message WHERE status = 'pending' AND next_attempt_at <= UTC_TIMESTAMP(3)",
  );
  expect(due).toEqual([]);
});

test('the relay sends what is behind a crowd while the crowd cannot move', async () => {
  const app = await startOutboxApp(database, {
    outbox: {
      backoff: ['1h'],
      transports: {
        out: {
          name: 'out',
          send: async (messages) =>
            messages.map(({ topic }) =>
              topic === 'stuck'
                ? { status: 'retry' as const, error: new Error('not yet') }
                : { status: 'sent' as const },
            ),
        },
      },
    },
  });
  running = app;
  await database.query(
    `INSERT INTO outbox_message (message_id, topic, open_unit, payload, status, next_attempt_at, created_at)
     SELECT CONCAT('m', n), IF(n = ${followers + 1}, 'other', 'stuck'), IF(n = ${followers + 1}, NULL, ${unit}), '1', 'pending',
            UTC_TIMESTAMP(3) - INTERVAL 1 HOUR, UTC_TIMESTAMP(3)
       FROM ${numbers(0, followers + 2)} ORDER BY n`,
  );
  await whileLocked('outbox_message', await idOfFollower('outbox_message', 'open_unit', 900), async () => {
    await waitUntil(
      async () => {
        await app.outbox.runOnce();
        return app.events('sent').length > 0;
      },
      { what: 'the message behind the crowd is sent' },
    );
    expect(app.events('sent')).toMatchObject([{ topic: 'other' }]);
    expect(await countOf('outbox_message', 'pending')).toBeGreaterThan(1);
  });
  await waitUntil(
    async () => {
      await app.outbox.runOnce();
      return (await countOf('outbox_message', 'held')) === followers;
    },
    { what: 'the crowd stands aside' },
  );
});
