// A batch that meets the locks of others: a deadlock that it loses, a gap that stays locked, and the deadline of the
// answer meanwhile. Whoever is told 503 pushes again, and is then told the truth.
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from '@jest/globals';
import { type Connection, createConnection } from 'mysql2/promise';
import { type InboxParts, inboxPartsToken } from '../../../src/inbox/index.js';
import type { IntakeRefusedError, Receipt } from '../../../src/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { gate } from '../../support/gate.js';
import { type InboxApp, startInboxApp } from '../../support/inbox-app.js';
import { waitUntil } from '../../support/wait-until.js';

let database: TestDatabase;
let app: InboxApp;
/** Somebody else's open transaction. */
let other: Connection;

beforeAll(async () => {
  database = await migrated(await createTestDatabase('intake_locks'));
});
afterAll(() => database.drop());
beforeEach(async () => {
  await database.query('DELETE FROM inbox_message');
  other = await createConnection(database.url);
});
afterEach(async () => {
  await other.end();
  await app.close();
});

const push = (id: string) =>
  app.inbox.receive('test', { rawBody: JSON.stringify({ type: 't', id }) }) as Promise<Receipt>;
const outcome = (id: string) =>
  push(id).then(
    ({ status }) => status,
    ({ statusCode, retryAfterMs }: IntakeRefusedError) => `${statusCode} ${retryAfterMs === undefined ? '' : 'retry'}`,
  );
const insert = (...ids: string[]) =>
  other.query(
    `INSERT INTO inbox_message (source, type, dedup_key, body) VALUES ${ids.map(() => "('test', 't', ?, '{}')").join(', ')}`,
    ids,
  );
const keys = async () =>
  (
    await database.query<{ k: string }>(
      "SELECT CONVERT(dedup_key USING utf8mb4) AS k FROM inbox_message WHERE dedup_key NOT LIKE 'filler%' ORDER BY dedup_key",
    )
  ).map(({ k }) => k);
/** An INSERT of ours waits for a lock. */
const ourWait = () =>
  waitUntil(
    async () => {
      const rows = await database.query(
        `SELECT 1 FROM information_schema.innodb_trx t JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id
          WHERE p.db = ? AND t.trx_state = 'LOCK WAIT' AND p.id <> ?`,
        [database.name, other.threadId],
      );
      return rows.length > 0;
    },
    // Who looks more often is shown the same picture all the time.
    { what: 'our batch waits for a lock', intervalMs: 150 },
  );

/** Instead of the usual second, so that the others of the machine do not decide who is first. */
async function waitLongForLocks(): Promise<void> {
  const { pool, options } = app.app.get<InboxParts>(inboxPartsToken);
  const all = gate();
  let set = 0;
  await Promise.all(
    Array.from({ length: options.controlPool }, () =>
      pool.withConnection(async (connection) => {
        await connection.query('SET SESSION innodb_lock_wait_timeout = 9');
        if (++set === options.controlPool) all.open();
        await all.opened;
      }),
    ),
  );
}

it('a batch that loses a deadlock is run again, and each sender gets what is true then', async () => {
  app = await startInboxApp(database, { inbox: { intake: { ackTimeout: '10s', maxPoolWait: '1m' } } });
  await waitLongForLocks();
  await other.beginTransaction();
  // The heavier transaction wins a deadlock, so that ours is the one that is rolled back.
  await insert(...Array.from({ length: 300 }, (_, n) => `filler${n}`));
  await insert('b');
  // They share a batch, in this order: it has the place of 'a' when it waits for 'b'.
  const results = Promise.all([outcome('a'), outcome('c'), outcome('b')]);
  await ourWait();
  await insert('a');
  await other.commit();
  expect(await results).toEqual(['duplicate', 'stored', 'duplicate']);
  expect(await keys()).toEqual(['a', 'b', 'c']);
});

it('a batch that waits for a locked gap twice gives up with 503s, and stores when it comes again', async () => {
  app = await startInboxApp(database, { inbox: { intake: { ackTimeout: '10s', maxPoolWait: '1m' } } });
  await other.query('SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ');
  await other.beginTransaction();
  // Nothing is there to find: only the place is locked, where no look-up meets it.
  await other.query(
    "SELECT id FROM inbox_message FORCE INDEX (inbox_dedup) WHERE source = 'test' AND dedup_key >= 'a' FOR UPDATE",
  );
  expect(await Promise.all([outcome('x'), outcome('y'), outcome('y')])).toEqual([
    '503 retry',
    '503 retry',
    '503 retry',
  ]);
  await other.rollback();
  expect(await outcome('x')).toBe('stored');
  expect(await Promise.all([outcome('y'), outcome('y')])).toEqual(['stored', 'duplicate']);
  expect(await keys()).toEqual(['x', 'y']);
});

it('no commit by the deadline is a 503 with Retry-After; the row that appears later is a duplicate of the next push', async () => {
  app = await startInboxApp(database, { inbox: { intake: { ackTimeout: 100, maxPoolWait: '1m' } } });
  await database.query('LOCK TABLES inbox_message WRITE');
  expect(await outcome('late')).toBe('503 retry');
  await database.query('UNLOCK TABLES');
  await waitUntil(async () => (await keys()).length === 1, { what: 'the row appears' });
  const [row] = await database.query<{ id: string }>('SELECT CAST(id AS CHAR) AS id FROM inbox_message');
  const again = await waitUntil(() => push('late'), { what: 'the sender pushes again' });
  expect(again).toEqual({ id: row?.id, duplicate: true, status: 'duplicate' });
  expect(app.events('refused')).toEqual([{ name: 'refused', source: 'test', refusal: 'unavailable' }]);
});
