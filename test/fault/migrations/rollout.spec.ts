// The whole rollout on a table in use: old code writes and handles its rows all the time, through phase 1, the deploy of the
// new code with its gate closed, the end of the old code, phase 2, and the opening of the gate.
// Long form: ROWS=1000000 rows of history.
import { setTimeout as sleep } from 'node:timers/promises';
import { createConnection } from 'mysql2/promise';
import type { TestDatabase } from '../../support/database.js';
import { type InboxApp, pushJson, startInboxApp } from '../../support/inbox-app.js';
import { adoption, databaseWithLog, logTable, migrate } from '../../support/message-log.js';
import { waitUntil } from '../../support/wait-until.js';

const history = Number(process.env.ROWS ?? 20_000);
const perSecond = 200;

let database: TestDatabase;
const running: InboxApp[] = [];

beforeAll(async () => {
  database = await databaseWithLog('rollout', 1);
  await database.query(
    'CREATE TABLE effect (message_id BIGINT UNSIGNED NOT NULL, who VARCHAR(8) NOT NULL, KEY (message_id))',
  );
  for (let rows = 1; rows < history; rows *= 2)
    await database.query(
      `INSERT INTO message_log (msgStr, msgType, status, createTime) SELECT msgStr, msgType, status, createTime FROM message_log LIMIT ${Math.min(rows, history - rows)}`,
    );
}, 600_000);
afterAll(async () => {
  for (const app of running.splice(0)) await app.close();
  await database.drop();
});

interface Writer {
  readonly failures: unknown[];
  readonly count: number;
  /** Since the last call. */
  longestMs(): number;
  stop(): Promise<void>;
}

/** Code that knows nothing of mailroom: stores a row and, when it is the old application, handles it at once. */
async function writer(handles: boolean): Promise<Writer> {
  const connections = await Promise.all(Array.from({ length: 4 }, () => createConnection(database.url)));
  const failures: unknown[] = [];
  let [count, longest, stopping] = [0, 0, false];
  const loop = async (connection: (typeof connections)[number]) => {
    const everyMs = (1_000 * connections.length) / perSecond;
    for (let due = performance.now(); !stopping; due += everyMs) {
      await sleep(Math.max(0, due - performance.now()));
      const startedAt = performance.now();
      try {
        await connection.beginTransaction();
        const [result] = await connection.query(
          'INSERT INTO message_log (msgStr, msgType, status) VALUES (\'{"type":"order"}\', \'order\', ?)',
          [handles ? 1 : 0],
        );
        const id = (result as { insertId: number }).insertId;
        if (handles) await connection.query("INSERT INTO effect VALUES (?, 'old')", [id]);
        await connection.commit();
        count++;
      } catch (error) {
        failures.push(error);
        await connection.rollback().catch(() => undefined);
      }
      longest = Math.max(longest, performance.now() - startedAt);
    }
  };
  const loops = connections.map(loop);
  return {
    failures,
    get count() {
      return count;
    },
    longestMs() {
      const ms = longest;
      longest = 0;
      return ms;
    },
    async stop() {
      stopping = true;
      await Promise.all(loops);
      for (const connection of connections) await connection.end();
    },
  };
}

async function start(enabled: boolean): Promise<InboxApp> {
  const app = await startInboxApp(database, {
    inbox: { table: logTable, enabled, roundInterval: 100 },
    handlers: {
      order: (message, ctx) => ctx.manager.query("INSERT INTO effect VALUES (?, 'new')", [message.id]),
    },
  });
  running.push(app);
  return app;
}

test('nothing of the history is handled, and every other row exactly once, by old or by new code', async () => {
  const figures: Record<string, unknown> = { history };
  const lines: string[] = [];
  const log = (line: string) => void lines.push(line);
  const { phase1, phase2 } = adoption({ log, defaults: { source: 'test', type: 'order' } });
  const [{ last } = { last: 0 }] = await database.query<{ last: number }>('SELECT MAX(id) AS last FROM message_log');

  const old = await writer(true);
  await waitUntil(() => old.count > 20, { what: 'the old code is at work' });
  figures.insertMsBefore = old.longestMs();
  let startedAt = performance.now();
  await migrate(database, (runner) => new phase1().up(runner));
  figures.phase1Ms = performance.now() - startedAt;
  figures.insertMsInPhase1 = old.longestMs();

  // The deploy: both are there, and what the new code stores waits.
  const closed = await start(false);
  const pushed: string[] = [];
  for (let n = 0; n < 50; n++) pushed.push(await pushJson(closed.inbox, { type: 'order', n, id: `p${n}` }));
  await old.stop();
  const waiting = () =>
    database.query<{ n: number }>("SELECT COUNT(*) AS n FROM message_log WHERE mailroom_status = 'pending'");
  expect(await waiting()).toEqual([{ n: 50 }]);

  const plain = await writer(false);
  await waitUntil(() => plain.count > 20, { what: 'a writer that names no status is at work' });
  startedAt = performance.now();
  await migrate(database, (runner) => new phase2().up(runner));
  figures.phase2Ms = performance.now() - startedAt;
  figures.insertMsInPhase2 = plain.longestMs();
  const [{ since } = { since: 0 }] = await database.query<{ since: number }>(
    'SELECT MAX(id) AS since FROM message_log',
  );
  const before = plain.count;
  await waitUntil(() => plain.count > before + 50, { what: 'it writes on' });
  await plain.stop();
  await closed.close();
  running.splice(0);

  await start(true);
  const unfinished = () =>
    database.query<{ n: number }>(
      "SELECT COUNT(*) AS n FROM message_log WHERE mailroom_status IN ('pending', 'processing', 'held')",
    );
  await waitUntil(async () => (await unfinished())[0]?.n === 0, { what: 'all is handled', timeoutMs: 60_000 });
  expect([old.failures, plain.failures]).toEqual([[], []]);
  const wrong = await database.query(
    `SELECT m.id, m.mailroom_status AS status, m.attempts, COUNT(e.message_id) AS handled FROM message_log m
       LEFT JOIN effect e ON e.message_id = m.id
      GROUP BY m.id HAVING (m.id <= ? AND handled <> 0) OR handled > 1 OR m.mailroom_status <> 'success' OR (m.id > ? AND handled <> 1) LIMIT 10`,
    [last, since],
  );
  expect(wrong).toEqual([]);
  const unhandledPushes = await database.query(
    `SELECT m.id FROM message_log m LEFT JOIN effect e ON e.message_id = m.id WHERE m.id IN (${pushed.join(', ')}) AND e.message_id IS NULL`,
  );
  expect(unhandledPushes).toEqual([]);
  const byOldCode = await database.query("SELECT COUNT(*) AS n FROM effect WHERE who = 'old'");
  expect(byOldCode).toEqual([{ n: old.count }]);
  figures.statements = lines.filter((line) => line.includes('ALTER TABLE') || line.includes('done in'));
  console.info(figures);
}, 600_000);
