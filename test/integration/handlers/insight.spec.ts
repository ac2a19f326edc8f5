// What a person asks the inbox and tells it while it runs: stats and why. Driven by runOnce(), on a real server.
import { type Connection, createConnection } from 'mysql2/promise';
import { DataSource } from 'typeorm';
import { ControlPool, type Row } from '../../../src/database/index.js';
import { InboxStatsStore } from '../../../src/inbox/inbox-stats.store.js';
import { inboxTable } from '../../../src/inbox/inbox-table.js';
import { drainInbox } from '../../../src/testing/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { gate } from '../../support/gate.js';
import { type InboxApp, type InboxAppOptions, pushJson, startInboxApp } from '../../support/inbox-app.js';
import { waitUntil } from '../../support/wait-until.js';

let database: TestDatabase;
let running: InboxApp | undefined;

beforeAll(async () => {
  database = await migrated(await createTestDatabase('insight'));
});
afterEach(async () => {
  await running?.close();
  running = undefined;
  await database.query('DELETE FROM inbox_message');
  await database.query('DELETE FROM mailroom_lease');
});
afterAll(() => database.drop());

async function start(options: InboxAppOptions): Promise<InboxApp> {
  running = await startInboxApp(database, options);
  return running;
}

const quiet = () => () => undefined;
const failing = () => () => Promise.reject(new Error('no'));

/** Notes every SELECT that goes through it. */
class NotingPool extends ControlPool {
  readonly statements: { sql: string; values: unknown[] }[] = [];

  override rows<T extends Row>(sql: string, values: readonly unknown[] = []): Promise<T[]> {
    this.statements.push({ sql, values: [...values] });
    return super.rows<T>(sql, values);
  }
}

describe('stats', () => {
  test('it counts by status, and shows lanes with their holder and what is in work with id, type and time', async () => {
    const enter = gate();
    const leave = gate();
    const { inbox } = await start({
      inbox: { maxRetry: 0 },
      handlers: {
        bad: failing(),
        slow: async () => {
          enter.open();
          await leave.opened;
        },
      },
    });
    await pushJson(inbox, { type: 'bad' });
    await drainInbox(inbox);
    const slow = await pushJson(inbox, { type: 'slow', entity: 'e' });
    await pushJson(inbox, { type: 'slow', entity: 'e' });
    await database.query(
      "UPDATE inbox_message SET next_attempt_at = UTC_TIMESTAMP(3) - INTERVAL 90 SECOND, received_at = NULL WHERE status = 'pending'",
    );
    const round = inbox.runOnce();
    await enter.opened;
    const stats = await inbox.stats();
    expect(stats.counts).toEqual({
      pending: { count: 1, isCapped: false },
      processing: { count: 1, isCapped: false },
      success: { count: 0, isCapped: false },
      failed: { count: 1, isCapped: false },
      held: { count: 0, isCapped: false },
    });
    expect(stats.oldestDueMs).toBeGreaterThanOrEqual(90_000);
    expect(stats.oldestDueMs).toBeLessThan(150_000);
    expect(stats.lanes).toMatchObject([{ lane: 0, isHere: true, holder: expect.any(String) }]);
    expect(stats.lanes[0]?.heldForMs).toBeGreaterThan(0);
    expect(stats.inFlight).toMatchObject([{ id: slow, source: 'test', type: 'slow', attempt: 1 }]);
    await waitUntil(async () => ((await inbox.stats()).inFlight[0]?.elapsedMs ?? 0) > 0, { what: 'time has passed' });
    leave.open();
    await round;
    const after = await inbox.stats();
    expect(after.inFlight).toEqual([]);
    expect(after.oldestDueMs).toBeNull();
    expect(after.lanes).toMatchObject([{ lane: 0, holder: null, heldForMs: 0 }]);
  });

  test('a handler that runs past its timeout is still shown as in work until it settles', async () => {
    const leave = gate();
    const { inbox } = await start({ handlers: { stuck: [{ timeout: 20 }, () => leave.opened] } });
    const id = await pushJson(inbox, { type: 'stuck' });
    await inbox.runOnce();
    expect((await inbox.stats()).inFlight).toMatchObject([{ id, type: 'stuck' }]);
    leave.open();
    await waitUntil(async () => (await inbox.stats()).inFlight.length === 0, { what: 'it has settled' });
  });

  test('counts stop at 10,000, and no statement of stats walks the table or sorts', async () => {
    const { inbox } = await start({ handlers: {} });
    const digits = Array.from({ length: 10 }, (_, n) => `SELECT ${n} AS d`).join(' UNION ALL ');
    await database.query(
      `INSERT INTO inbox_message (source, type, body, status, next_attempt_at)
       SELECT 'test', 'x', '{}', IF(e.d = 0 AND d.d = 0 AND c.d = 0, 'pending', 'success'), UTC_TIMESTAMP(3)
         FROM (${digits}) a, (${digits}) b, (${digits}) c, (${digits}) d, (SELECT 0 AS d UNION ALL SELECT 1) e`,
    );
    await database.query('ANALYZE TABLE inbox_message');

    expect((await inbox.stats()).counts).toMatchObject({
      success: { count: 10_000, isCapped: true },
      pending: { count: 100, isCapped: false },
    });
    const dataSource = await new DataSource(database.options).initialize();
    const pool = new NotingPool(dataSource, { size: 1 });
    const connection = await createConnection(database.url);
    try {
      const stored = new InboxStatsStore(pool, inboxTable());
      await stored.counts();
      await stored.lanes();
      const looks = pool.statements.filter(({ sql }) => /inbox_message/.test(sql));
      expect(looks.length).toBeGreaterThanOrEqual(6);
      for (const { sql, values } of looks) {
        const [plan] = await connection.query(
          `EXPLAIN ${database.flavour === 'mysql' ? 'FORMAT=TRADITIONAL ' : ''}${sql}`,
          values,
        );
        for (const step of plan as { table: string; key: string; Extra: string | null }[]) {
          if (!/^(inbox_message|m)$/.test(step.table)) continue;
          expect([sql, step.key]).toEqual([sql, 'inbox_claim']);
          expect(step.Extra ?? '').not.toMatch(/filesort|temporary/);
        }
        expect([sql, (await rowsRead(connection, sql, values)) <= 2 * 10_002]).toEqual([sql, true]);
      }
    } finally {
      await connection.end();
      await pool.close();
      await dataSource.destroy();
    }
  });
});

describe('why', () => {
  test.each([
    ['an unknown id', '999999999', 'unknown-id'],
    ['an id that is none', "1' OR 1=1", 'unknown-id'],
  ])('%s is answered, not thrown', async (_what, id, code) => {
    const { inbox } = await start({ handlers: {} });
    expect(await inbox.why(id)).toMatchObject({ id, code, status: null });
  });

  test('it tells what each message waits for', async () => {
    const enter = gate();
    const leave = gate();
    const { inbox } = await start({
      inbox: { backoff: ['1h'], maxRetry: 1 },
      handlers: {
        good: quiet(),
        later: failing(),
        bad: [{ maxRetry: 0 }, failing()],
        slow: async () => {
          enter.open();
          await leave.opened;
        },
      },
    });
    const good = await pushJson(inbox, { type: 'good' });
    const later = await pushJson(inbox, { type: 'later', entity: 'e' });
    const behind = await pushJson(inbox, { type: 'good', entity: 'e' });
    const bad = await pushJson(inbox, { type: 'bad' });
    await drainInbox(inbox);
    const unheard = await pushJson(inbox, { type: 'unheard' });
    const due = await pushJson(inbox, { type: 'good' });
    const code = async (id: string) => (await inbox.why(id)).code;
    expect(await code(good)).toBe('done');
    expect(await inbox.why(later)).toMatchObject({
      code: 'later',
      text: expect.stringContaining('after 1 attempts; its last attempt ended with Error'),
    });
    expect(await inbox.why(behind)).toMatchObject({
      code: 'behind',
      text: expect.stringContaining(`message ${later} `),
    });
    expect(await inbox.why(bad)).toMatchObject({ code: 'failed', text: expect.stringContaining('kind Error') });
    expect(await inbox.why(unheard)).toMatchObject({
      code: 'no-handler',
      text: expect.stringContaining('test/unheard'),
    });
    expect(await code(due)).toBe('due');
    await database.query('DELETE FROM inbox_message');
    const slow = await pushJson(inbox, { type: 'slow' });
    const round = inbox.runOnce();
    await enter.opened;
    const holder = (await inbox.stats()).lanes[0]?.holder ?? 'nobody';
    expect(await inbox.why(slow)).toMatchObject({ code: 'handling', text: expect.stringContaining(holder) });
    leave.open();
    await round;
  });
});

async function rowsRead(connection: Connection, sql: string, values: unknown[]): Promise<number> {
  await connection.query('FLUSH STATUS');
  await connection.query(sql, values);
  const [rows] = await connection.query("SHOW SESSION STATUS LIKE 'Handler_read%'");
  return (rows as { Value: string }[]).reduce((sum, row) => sum + Number(row.Value), 0);
}
