// Order within an entity: a message that waits holds its followers back or lets them pass, and never the others.
import { drainInbox } from '../../../src/testing/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { type InboxApp, type InboxAppOptions, pushJson, startInboxApp } from '../../support/inbox-app.js';

let database: TestDatabase;
let running: InboxApp | undefined;

beforeAll(async () => {
  database = await migrated(await createTestDatabase('entity_order'));
});
afterEach(async () => {
  await running?.close();
  running = undefined;
  await database.query('DELETE FROM inbox_message');
});
afterAll(() => database.drop());

async function start(options: InboxAppOptions): Promise<InboxApp> {
  running = await startInboxApp(database, options);
  return running;
}

const statuses = async () =>
  (await database.query<{ status: string }>('SELECT status FROM inbox_message ORDER BY id')).map((row) => row.status);
const dueNow = () =>
  database.query(
    "UPDATE inbox_message SET next_attempt_at = UTC_TIMESTAMP(3) - INTERVAL 1 SECOND WHERE status = 'pending'",
  );

/** A handler that notes `entity:n` and fails the messages that `failing` names as often as it says. */
function noting(seen: string[], failing: Record<string, number> = {}) {
  return (received: { json: Record<string, unknown> }) => {
    const name = `${received.json.entity ?? '-'}:${received.json.n}`;
    if ((failing[name] ?? 0) > 0) {
      failing[name] = (failing[name] ?? 0) - 1;
      seen.push(`${name}!`);
      throw new Error('not yet');
    }
    seen.push(name);
  };
}

async function push(app: InboxApp, ...names: string[]): Promise<string[]> {
  const ids: string[] = [];
  for (const name of names) {
    const [entity, n] = name.split(':');
    ids.push(await pushJson(app.inbox, { type: 'e', n: Number(n), ...(entity === '-' ? {} : { entity }) }));
  }
  return ids;
}

test('followers of a message that waits for its retry wait too, and others pass', async () => {
  const seen: string[] = [];
  const app = await start({ inbox: { backoff: ['1h'] }, handlers: { e: noting(seen, { 'a:1': 1 }) } });
  await push(app, 'a:1', 'b:1', 'a:2', '-:1', 'a:3', 'b:2');
  await drainInbox(app.inbox);
  expect(seen).toEqual(['a:1!', 'b:1', '-:1', 'b:2']);
  expect(await statuses()).toEqual(['pending', 'success', 'held', 'success', 'held', 'success']);
  await dueNow();
  await drainInbox(app.inbox);
  expect(seen.slice(4)).toEqual(['a:1', 'a:2', 'a:3']);
});

test('a follower that arrives while its head waits is handled after it', async () => {
  const seen: string[] = [];
  const app = await start({ inbox: { backoff: ['1h'] }, handlers: { e: noting(seen, { 'a:1': 1 }) } });
  await push(app, 'a:1');
  await drainInbox(app.inbox);
  await push(app, 'a:2', 'c:1');
  await drainInbox(app.inbox);
  await push(app, 'a:3');
  await dueNow();
  await drainInbox(app.inbox);
  expect(seen).toEqual(['a:1!', 'c:1', 'a:1', 'a:2', 'a:3']);
});

test("with order 'skip' followers pass a message that waits", async () => {
  const seen: string[] = [];
  const app = await start({
    inbox: { backoff: ['1h'] },
    source: { order: 'skip' },
    handlers: { e: noting(seen, { 'a:1': 1 }) },
  });
  await push(app, 'a:1', 'a:2', 'a:3');
  await drainInbox(app.inbox);
  expect(seen).toEqual(['a:1!', 'a:2', 'a:3']);
});

test("with onFailure 'continue' the next message of the entity runs after a failure", async () => {
  const seen: string[] = [];
  const app = await start({ inbox: { maxRetry: 0 }, handlers: { e: noting(seen, { 'a:1': 9 }) } });
  await push(app, 'a:1', 'a:2');
  await drainInbox(app.inbox);
  expect(seen).toEqual(['a:1!', 'a:2']);
  expect(await statuses()).toEqual(['failed', 'success']);
});

test("with onFailure 'park' the entity stays closed after a failure, also for messages that come later", async () => {
  const seen: string[] = [];
  const app = await start({
    inbox: { maxRetry: 0 },
    source: { onFailure: 'park' },
    handlers: { e: noting(seen, { 'a:1': 9 }) },
  });
  await push(app, 'a:1', 'a:2', 'b:1');
  await drainInbox(app.inbox);
  await push(app, 'a:3', 'b:2');
  await drainInbox(app.inbox);
  expect(seen).toEqual(['a:1!', 'b:1', 'b:2']);
  expect(await statuses()).toEqual(['failed', 'held', 'success', 'held', 'success']);
});

test('a failing entity that retries at once is still handled in order', async () => {
  const seen: string[] = [];
  const app = await start({ handlers: { e: noting(seen, { 'a:1': 2, 'a:3': 1 }) } });
  await push(app, 'a:1', 'a:2', 'a:3', 'a:4');
  await drainInbox(app.inbox);
  expect(seen).toEqual(['a:1!', 'a:1!', 'a:1', 'a:2', 'a:3!', 'a:3', 'a:4']);
});

test('an entity whose followers were left aside by a process that died is put in order again by recovery', async () => {
  const seen: string[] = [];
  const app = await start({
    inbox: { recoveryInterval: 100, roundInterval: 50, tick: 20 },
    handlers: { e: noting(seen) },
  });
  const ids = await push(app, 'a:1', 'a:2', 'b:1');
  await database.query("UPDATE inbox_message SET status = 'held' WHERE id IN (?, ?)", [ids[0], ids[1]]);
  await drainInbox(app.inbox);
  expect(seen).toEqual(['b:1']);
  await app.inbox.recoverOnce();
  await drainInbox(app.inbox);
  expect(seen).toEqual(['b:1', 'a:1', 'a:2']);
});

test('twenty thousand followers of a waiting message do not keep others waiting', async () => {
  const seen: string[] = [];
  const app = await start({ inbox: { backoff: ['1h'] }, handlers: { e: noting(seen, { 'a:0': 1 }) } });
  const [head] = await push(app, 'a:0');
  await app.inbox.runOnce();
  await database.query(
    `INSERT INTO inbox_message (source, type, entity_key, open_entity, body, status, next_attempt_at)
     SELECT m.source, m.type, m.entity_key, m.open_entity, '{"type":"e","entity":"a","n":1}', 'pending', UTC_TIMESTAMP(3)
       FROM inbox_message m, (SELECT 1 FROM (${tenTimes('t', 4)}) x) many WHERE m.id = ?`,
    [head],
  );
  await database.query(
    `INSERT INTO inbox_message (source, type, entity_key, open_entity, body, status, next_attempt_at)
     SELECT source, type, entity_key, open_entity, body, 'pending', next_attempt_at FROM inbox_message WHERE id > ?`,
    [head],
  );
  await push(app, 'b:1');
  await app.inbox.runOnce();
  expect(seen).toEqual(['a:0!', 'b:1']);
  const [held] = await database.query<{ n: number }>("SELECT COUNT(*) AS n FROM inbox_message WHERE status = 'held'");
  expect(held?.n).toBe(20_000);
});

function tenTimes(alias: string, powers: number): string {
  const digits = Array.from({ length: 10 }, (_, n) => `SELECT ${n} AS d`).join(' UNION ALL ');
  return `SELECT 1 AS one FROM ${Array.from({ length: powers }, (_, n) => `(${digits}) ${alias}${n}`).join(', ')}`;
}
