// What becomes of a message: success, retry, failure, on a real server. Driven by runOnce(), nothing sleeps.

import { PermanentFailureError, RetryAfterError } from '../../../src/index.js';
import { drainInbox } from '../../../src/testing/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { type InboxApp, type InboxAppOptions, pushJson, startInboxApp } from '../../support/inbox-app.js';

let database: TestDatabase;
let running: InboxApp | undefined;

beforeAll(async () => {
  database = await migrated(await createTestDatabase('handling'));
  await database.query('CREATE TABLE effect (id INT AUTO_INCREMENT PRIMARY KEY, note VARCHAR(200))');
});
afterEach(async () => {
  await running?.close();
  running = undefined;
  await database.query('DELETE FROM inbox_message');
  await database.query('DELETE FROM effect');
});
afterAll(() => database.drop());

async function start(options: InboxAppOptions): Promise<InboxApp> {
  running = await startInboxApp(database, options);
  return running;
}

const message = async (id: string) => {
  const [row] = await database.query<Record<string, unknown>>(
    'SELECT *, CAST(body AS CHAR) AS text FROM inbox_message WHERE id = ?',
    [id],
  );
  if (!row) throw new Error(`no message ${id}`);
  return row;
};
const effects = async () =>
  (await database.query<{ note: string }>('SELECT note FROM effect ORDER BY id')).map((row) => row.note);

test('a pushed message is handled once and its writes commit with its success', async () => {
  const { inbox, events } = await start({
    handlers: {
      greet: async (received, ctx) => {
        await ctx.manager.query('INSERT INTO effect (note) VALUES (?)', [`hello ${received.json.name}`]);
      },
    },
  });
  const id = await pushJson(inbox, { type: 'greet', id: 'a', name: 'Ada' });
  await drainInbox(inbox);
  expect(await message(id)).toMatchObject({
    status: 'success',
    attempts: 1,
    claim_token: null,
    claimed_by: null,
    open_entity: null,
  });
  expect(await effects()).toEqual(['hello Ada']);
  expect(events('succeeded')).toMatchObject([{ id, source: 'test', type: 'greet', attempt: 1 }]);
});

test('a handler without a statement needs no transaction to succeed', async () => {
  const { inbox } = await start({ handlers: { quiet: () => undefined } });
  const ids = await Promise.all(Array.from({ length: 7 }, (_, n) => pushJson(inbox, { type: 'quiet', id: `q${n}` })));
  await drainInbox(inbox);
  for (const id of ids) expect(await message(id)).toMatchObject({ status: 'success', attempts: 1 });
});

test('what a handler wrote before it threw is rolled back, and the retry starts anew', async () => {
  const { inbox, events } = await start({
    handlers: {
      shaky: async (_received, ctx) => {
        await ctx.manager.query('INSERT INTO effect (note) VALUES (?)', [`attempt ${ctx.attempt}`]);
        if (ctx.attempt < 3) throw new Error(`not yet ${ctx.attempt}`);
      },
    },
  });
  const id = await pushJson(inbox, { type: 'shaky' });
  await drainInbox(inbox);
  expect(await message(id)).toMatchObject({ status: 'success', attempts: 3, error_message: null });
  expect(await effects()).toEqual(['attempt 3']);
  expect(events('retrying').map((event) => event.attempt)).toEqual([1, 2]);
});

test('used-up retries end as failed, with the last error', async () => {
  const { inbox, events } = await start({
    inbox: { maxRetry: 2 },
    handlers: { never: () => Promise.reject(new TypeError('it cannot be')) },
  });
  const id = await pushJson(inbox, { type: 'never', entity: 'e' });
  await drainInbox(inbox);
  expect(await message(id)).toMatchObject({
    status: 'failed',
    attempts: 3,
    error_kind: 'TypeError',
    error_message: 'it cannot be',
    open_entity: null,
  });
  expect(events('failed')).toMatchObject([{ id, attempt: 3, errorKind: 'TypeError' }]);
});

test('the backoff decides when a retry is due, on the clock of the database', async () => {
  const { inbox } = await start({
    inbox: { backoff: ['30s', '2m'] },
    handlers: { later: () => Promise.reject(new Error('later')) },
  });
  const id = await pushJson(inbox, { type: 'later' });
  await drainInbox(inbox);
  const due = 'SELECT TIMESTAMPDIFF(SECOND, updated_at, next_attempt_at) AS seconds FROM inbox_message WHERE id = ?';
  expect(await database.query(due, [id])).toEqual([{ seconds: 30 }]);
  await database.query("UPDATE inbox_message SET next_attempt_at = '1970-01-01' WHERE id = ?", [id]);
  await drainInbox(inbox);
  expect(await database.query(due, [id])).toEqual([{ seconds: 120 }]);
});

test('a permanent failure is not tried again', async () => {
  const { inbox } = await start({
    handlers: { wrong: () => Promise.reject(new PermanentFailureError('no such contract', { kind: 'conflict' })) },
  });
  const id = await pushJson(inbox, { type: 'wrong' });
  await drainInbox(inbox);
  expect(await message(id)).toMatchObject({
    status: 'failed',
    attempts: 1,
    error_kind: 'conflict',
    error_message: 'no such contract',
  });
});

test('RetryAfterError chooses the delay and counts as an attempt', async () => {
  const { inbox } = await start({ handlers: { busy: () => Promise.reject(new RetryAfterError('90s')) } });
  const id = await pushJson(inbox, { type: 'busy' });
  await drainInbox(inbox);
  expect(
    await database.query(
      'SELECT attempts, status, TIMESTAMPDIFF(SECOND, updated_at, next_attempt_at) AS seconds FROM inbox_message WHERE id = ?',
      [id],
    ),
  ).toEqual([{ attempts: 1, status: 'pending', seconds: 90 }]);
});

test.each([
  ['a string', 'just text', 'non-error', 'just text'],
  ['undefined', undefined, 'non-error', 'a handler threw undefined'],
  ['null', null, 'non-error', 'a handler threw null'],
  ['an object', { secret: 'x' }, 'non-error', 'a handler threw object'],
  ['an emoji text longer than the column', '😀'.repeat(600), 'non-error', '😀'.repeat(500)],
])('a handler may throw %s', async (_what, thrown, kind, text) => {
  const { inbox } = await start({ inbox: { maxRetry: 0 }, handlers: { odd: () => Promise.reject(thrown) } });
  const id = await pushJson(inbox, { type: 'odd' });
  await drainInbox(inbox);
  expect(await message(id)).toMatchObject({ status: 'failed', error_kind: kind, error_message: text });
});

test('a body that cannot be decoded fails at once and the lane goes on', async () => {
  const { inbox } = await start({
    source: { type: 'doc' },
    handlers: { doc: (received) => void received.json },
  });
  const cut = (await inbox.receive('test', { rawBody: '{"id":"1","half' }).catch((error) => error)) as {
    statusCode: number;
  };
  expect(cut.statusCode).toBe(400);
  const good = await pushJson(inbox, { id: 'good' });
  await database.query("UPDATE inbox_message SET body = '{\"half' WHERE id = ?", [good]);
  const next = await pushJson(inbox, { id: 'next' });
  await drainInbox(inbox);
  expect(await message(good)).toMatchObject({ status: 'failed', attempts: 1, error_kind: 'undecodable' });
  expect(String((await message(good)).error_message)).not.toContain('half');
  expect(await message(next)).toMatchObject({ status: 'success' });
});

test('a message of a type that nobody handles here is put off without an attempt, and others pass it', async () => {
  const { inbox, events } = await start({ handlers: { known: () => undefined } });
  const unknown = await Promise.all(Array.from({ length: 60 }, () => pushJson(inbox, { type: 'unheard' })));
  const known = await pushJson(inbox, { type: 'known' });
  expect(await inbox.runOnce()).toEqual(['yielded']);
  expect(await message(unknown[0] ?? '')).toMatchObject({ status: 'pending', attempts: 0 });
  await inbox.runOnce();
  expect(await message(known)).toMatchObject({ status: 'success' });
  expect(await message(unknown[0] ?? '')).toMatchObject({ status: 'pending', attempts: 0 });
  expect(events('put-off').reduce((sum, event) => sum + event.count, 0)).toBe(60);
});

test('a body larger than what is read ahead reaches its handler whole', async () => {
  let length = 0;
  const { inbox } = await start({ handlers: { big: (received) => (length = received.body.length) } });
  await pushJson(inbox, { type: 'big', filler: 'x'.repeat(500_000) });
  await drainInbox(inbox);
  expect(length).toBe(500_000 + '{"type":"big","filler":""}'.length);
});

test('many messages are handled in the order of their arrival', async () => {
  const seen: string[] = [];
  const { inbox } = await start({ handlers: { n: (received) => void seen.push(received.id) } });
  const ids: string[] = [];
  for (let n = 0; n < 130; n++) ids.push(await pushJson(inbox, { type: 'n' }));
  await drainInbox(inbox);
  expect(seen).toEqual(ids);
});
