// Pausing kinds in one process, and letting a parked entity go on.
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import {
  type InboxApp,
  type InboxAppOptions,
  pushJson,
  startInboxApp,
  type TestHandler,
} from '../../support/inbox-app.js';

let database: TestDatabase;
const running: InboxApp[] = [];

beforeAll(async () => {
  database = await migrated(await createTestDatabase('pause'));
  await database.query('CREATE TABLE effect (id INT AUTO_INCREMENT PRIMARY KEY, note VARCHAR(200))');
});
afterEach(async () => {
  for (const app of running.splice(0)) await app.close();
  for (const table of ['inbox_message', 'effect', 'mailroom_lease']) await database.query(`DELETE FROM ${table}`);
});
afterAll(() => database.drop());

const write: TestHandler = async (message, ctx) =>
  void (await ctx.manager.query('INSERT INTO effect (note) VALUES (?)', [message.json.id]));
const handlers = { a: write, b: write };

async function start(options: InboxAppOptions = {}): Promise<InboxApp> {
  const app = await startInboxApp(database, {
    handlers,
    ...options,
    inbox: { enabled: false, maxRetry: 0, ...options.inbox },
  });
  running.push(app);
  return app;
}

const effects = async () =>
  (await database.query<{ note: string }>('SELECT note FROM effect ORDER BY id')).map((row) => row.note);
const snapshot = () =>
  database.query(
    "SELECT id, status, next_attempt_at, updated_at, attempts FROM inbox_message WHERE status = 'pending'",
  );
const leases = () => database.query('SELECT name, fence, owner, held_until FROM mailroom_lease');

test('a paused type is left alone while others go on, also behind a hundred of its messages', async () => {
  const app = await start();
  for (let n = 0; n < 100; n++) await pushJson(app.inbox, { type: 'a', id: `a${n}` });
  await pushJson(app.inbox, { type: 'b', id: 'b' });
  const before = (await snapshot()).slice(0, 100);
  expect(app.inbox.pause({ type: 'a' })).toEqual([{ source: null, type: 'a' }]);
  expect(await app.inbox.runOnce()).toEqual(['drained']);
  expect(await effects()).toEqual(['b']);
  expect(await snapshot()).toEqual(before);
});

test('while all that is due is paused, a round writes nothing, not even a lease', async () => {
  const app = await start();
  await pushJson(app.inbox, { type: 'a', id: 'a' });
  app.inbox.pause({ source: 'test' });
  const before = [await snapshot(), await leases()];
  expect(await app.inbox.runOnce()).toEqual(['idle']);
  expect([await snapshot(), await leases()]).toEqual(before);
});

test('after resume the messages are handled, in order', async () => {
  const app = await start();
  for (const id of ['1', '2', '3']) await pushJson(app.inbox, { type: 'a', id, entity: 'e' });
  app.inbox.pause();
  await app.inbox.runOnce();
  expect(app.inbox.resume()).toEqual([]);
  await app.inbox.runOnce();
  expect(await effects()).toEqual(['1', '2', '3']);
});

test('younger messages of the entity wait for a paused one, other entities do not', async () => {
  const app = await start();
  await pushJson(app.inbox, { type: 'a', id: '1', entity: 'e' });
  await pushJson(app.inbox, { type: 'b', id: '2', entity: 'e' });
  await pushJson(app.inbox, { type: 'b', id: 'other', entity: 'f' });
  app.inbox.pause({ source: 'test', type: 'a' });
  await app.inbox.runOnce();
  expect(await effects()).toEqual(['other']);
  expect((await app.inbox.stats()).paused).toEqual([{ source: 'test', type: 'a' }]);
  app.inbox.resume({ source: 'test', type: 'a' });
  expect((await app.inbox.stats()).paused).toEqual([]);
  await app.inbox.runOnce();
  expect(await effects()).toEqual(['other', '1', '2']);
});

test('a pause in the middle of a round takes effect with the next message', async () => {
  const app = await start({
    handlers: {
      b: write,
      a: async (message, ctx) => {
        await write(message, ctx);
        app.inbox.pause({ type: 'a' });
      },
    },
  });
  for (const [type, id] of [
    ['a', '1'],
    ['a', '2'],
    ['b', '3'],
  ])
    await pushJson(app.inbox, { type, id });
  await app.inbox.runOnce();
  expect(await effects()).toEqual(['1', '3']);
});

test('what one pause holds is not set free by the resume of something narrower', async () => {
  const app = await start();
  app.inbox.pause({ source: 'test' });
  app.inbox.pause({ source: 'test', type: 'a' });
  expect(app.inbox.resume({ source: 'test', type: 'a' })).toEqual([{ source: 'test', type: null }]);
});

test('a parked entity goes on once a person let it, and the failed message stays failed', async () => {
  const app = await start({
    source: { onFailure: 'park' },
    handlers: {
      b: write,
      a: async () => {
        throw new Error('no');
      },
    },
  });
  const failed = await pushJson(app.inbox, { type: 'a', id: '1', entity: 'e' });
  await pushJson(app.inbox, { type: 'a', id: 'x', entity: 'other' });
  for (const id of ['2', '3']) await pushJson(app.inbox, { type: 'b', id, entity: 'e' });
  await app.inbox.runOnce();
  expect(await effects()).toEqual([]);
  expect(await app.inbox.releaseEntity('test', 'e')).toEqual({ released: 1 });
  await app.inbox.runOnce();
  expect(await effects()).toEqual(['2', '3']);
  expect(await database.query('SELECT status FROM inbox_message WHERE id = ?', [failed])).toEqual([
    { status: 'failed' },
  ]);
  expect(await app.inbox.releaseEntity('test', 'e')).toEqual({ released: 0 });
  const [other] = await database.query<{ open_entity: unknown }>(
    "SELECT open_entity FROM inbox_message WHERE entity_key = 'other'",
  );
  expect(other?.open_entity).not.toBeNull();
});
