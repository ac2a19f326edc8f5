// adoptTable on a real server: a log table with history becomes the inbox in two phases, and goes back.
import { drainInbox } from '../../../src/testing/index.js';
import type { TestDatabase } from '../../support/database.js';
import { type InboxApp, pushJson, startInboxApp } from '../../support/inbox-app.js';
import { adoption, databaseWithLog, logTable, migrate, oldInsert } from '../../support/message-log.js';

let database: TestDatabase;
const running: InboxApp[] = [];

beforeEach(async () => {
  database = await databaseWithLog('adopt');
});
afterEach(async () => {
  for (const app of running.splice(0)) await app.close();
  await database.drop();
  delete process.env.MAILROOM_FORCE_DOWN;
});

const { phase1, phase2 } = adoption({ defaults: { source: 'test', type: 'order' } });
const up = (...phases: (typeof phase1)[]) =>
  Promise.all(phases.map((Phase) => migrate(database, (runner) => new Phase().up(runner))));
const down = (Phase: typeof phase1) => migrate(database, (runner) => new Phase().down(runner));
const statuses = async () =>
  (await database.query<{ s: string }>('SELECT mailroom_status AS s FROM message_log ORDER BY id')).map(({ s }) => s);
const columns = async () =>
  (
    await database.query<{ c: string }>(
      "SELECT column_name AS c FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'message_log' ORDER BY ordinal_position",
    )
  ).map(({ c }) => c);

async function start(seen: string[] = []): Promise<InboxApp> {
  const app = await startInboxApp(database, {
    inbox: { table: logTable },
    handlers: { order: (message) => void seen.push(message.body.toString()) },
  });
  running.push(app);
  return app;
}

test('history and what old code inserts is never consumed; pushes are, and after phase 2 plain rows too', async () => {
  await up(phase1);
  await database.query(oldInsert, ['{"type":"order","n":"old code"}']);
  const seen: string[] = [];
  const app = await start(seen);
  const id = await pushJson(app.inbox, { type: 'order', n: 'pushed', text: 'Grüße 你好' });
  await drainInbox(app.inbox);
  expect(seen).toEqual(['{"type":"order","n":"pushed","text":"Grüße 你好"}']);
  expect(await statuses()).toEqual(Array(5).fill('success'));
  const [row] = await database.query('SELECT id, attempts, createTime FROM message_log ORDER BY id DESC LIMIT 1');
  expect(row).toMatchObject({ id: Number(id), attempts: 1 });

  await up(phase2);
  await database.query(oldInsert, ['{"n":"plain"}']);
  await drainInbox(app.inbox);
  expect(seen.slice(1)).toEqual(['{"n":"plain"}']);
  expect(await statuses()).toEqual(Array(6).fill('success'));
});

test('phase 1 alone changes no row, and each phase goes back to what was there', async () => {
  const before = await columns();
  await up(phase1);
  expect(await columns()).toHaveLength(before.length + 21);
  await up(phase1);
  await up(phase2);
  await up(phase2);
  await expect(down(phase1)).rejects.toThrow('phase 2 of message_log is in force: revert it first');
  await down(phase2);
  await down(phase2);
  await database.query(oldInsert, ['after the way back']);
  expect((await statuses()).at(-1)).toBe('success');
  await down(phase1);
  expect(await columns()).toEqual(before);
  expect(await database.query('SELECT COUNT(*) AS n FROM message_log')).toEqual([{ n: 4 }]);
  const keys = await database.query(
    "SELECT DISTINCT index_name AS name FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'message_log' ORDER BY 1",
  );
  expect(keys).toEqual([{ name: 'byTime' }, { name: 'PRIMARY' }]);
});
