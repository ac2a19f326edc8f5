// What people do to the outbox: look, send again, take out, with a record.
import { InvalidSelectionError, OverlappingRunError } from '../../../src/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { notingTransport, type OutboxApp, outboxCounts, startOutboxApp } from '../../support/outbox-app.js';
import { waitUntil } from '../../support/wait-until.js';

let database: TestDatabase;
let app: OutboxApp;
let broken = true;
let offline = false;
let sent: string[] = [];
const audit = { actor: 'ann', reason: 'the provider is back' };

beforeAll(async () => {
  database = await migrated(await createTestDatabase('outbox_ops'));
});
beforeEach(async () => {
  broken = true;
  offline = false;
  sent = [];
  const transport = notingTransport((message) => {
    if (offline) return { status: 'offline' };
    if (broken)
      return { status: 'dead', error: Object.assign(new Error('no such number'), { code: 'unknown-number' }) };
    sent.push(String(message.payload));
    return { status: 'sent' };
  });
  app = await startOutboxApp(database, { outbox: { enabled: true, pollInterval: 30, transports: { out: transport } } });
});
afterEach(async () => {
  await app.close();
  for (const table of ['outbox_message', 'outbox_message_archive', 'replay_run', 'replay_item'])
    await database.query(`DELETE FROM ${table}`);
});
afterAll(() => database.drop());

async function dead(count: number, more: object = {}): Promise<string[]> {
  const ids = await app.send(Array.from({ length: count }, (_, n) => ({ topic: 't', payload: n, key: 'k', ...more })));
  await waitUntil(async () => (await outboxCounts(database)).dead === count, { what: 'all are dead' });
  return ids;
}

test('retry sends dead messages again in order, archives each as it was, and keeps a record', async () => {
  await dead(5);
  broken = false;
  const run = await app.outbox.retry({ topic: 't' }, audit);
  expect(run).toMatchObject({
    box: 'outbox',
    action: 'replay',
    state: 'done',
    selected: 5,
    requeued: 5,
    skipped: 0,
    ...audit,
  });
  await waitUntil(async () => (await outboxCounts(database)).sent === 5, { what: 'all are sent' });
  expect(sent).toEqual(['0', '1', '2', '3', '4']);
  const archived = await database.query('SELECT status, attempts, error_kind, run_id FROM outbox_message_archive');
  expect(archived).toHaveLength(5);
  expect(archived[0]).toMatchObject({
    status: 'dead',
    attempts: 1,
    error_kind: 'unknown-number',
    run_id: Number(run.id),
  });
  expect(await database.query('SELECT DISTINCT replay_count, error_kind FROM outbox_message')).toEqual([
    { replay_count: 1, error_kind: null },
  ]);
  expect(await app.outbox.retry({ topic: 't' }, audit)).toMatchObject({ selected: 0, requeued: 0, state: 'done' });
});

test('a message that had expired waits for its offline receiver anew when it is sent again', async () => {
  await dead(1, { receiver: 'bob' });
  await database.query("UPDATE outbox_message SET error_kind = 'expired', expires_at = '2020-01-01'");
  offline = true;
  await app.outbox.retry({ errorKind: 'expired' }, audit);
  await waitUntil(async () => (await outboxCounts(database)).parked === 1, { what: 'it is parked' });
  expect(await database.query('SELECT expires_at > UTC_TIMESTAMP(3) AS waits FROM outbox_message')).toEqual([
    { waits: 1 },
  ]);
});

test('discard takes them out, with the reason, into the archive', async () => {
  const [first] = await dead(2);
  const [row] = await database.query<{ id: number }>('SELECT id FROM outbox_message ORDER BY id LIMIT 1');
  const run = await app.outbox.discard({ ids: [row?.id ?? 0] }, { actor: 'ann', reason: 'wrong number' });
  expect(run).toMatchObject({ action: 'discard', selected: 1, discarded: 1 });
  expect(await outboxCounts(database)).toEqual({ dead: 1 });
  expect(await database.query('SELECT message_id, reason FROM outbox_message_archive')).toEqual([
    { message_id: first, reason: 'discard: wrong number' },
  ]);
});

test.each<[string, object, RegExp]>([
  ['an empty selection', {}, /^selection: it is empty/],
  ['an unknown filter', { source: 'x' }, /^source: the outbox has no such filter/],
  ['an unknown status', { status: 'pending', topic: 't' }, /^status: write one of dead, sent/],
  ['an id that is none', { ids: ['1 OR 1=1'] }, /^ids: /],
  ['an instant that is none', { receivedFrom: 'yesterday' }, /^receivedFrom: /],
  ['all that is not true', { all: 'yes' }, /^all: /],
])('%s is refused and nothing is recorded', async (_name, selection, message) => {
  const failure = app.outbox.retry(selection as never, audit);
  await expect(failure).rejects.toThrow(InvalidSelectionError);
  await expect(failure).rejects.toThrow(message);
  expect(await database.query('SELECT id FROM replay_run')).toEqual([]);
});

test('without an actor or a reason nothing is done', async () => {
  await expect(app.outbox.retry({ all: true }, { actor: ' ', reason: 'x' })).rejects.toThrow(/^actor: /);
  await expect(app.outbox.retry({ all: true }, { actor: 'a', reason: '' })).rejects.toThrow(/^reason: /);
});

test('filters choose: kind and text of the error, receiver, subject, attempts, time', async () => {
  await dead(1, { receiver: 'bob', subject: 's1' });
  await app.send({ topic: 'other', payload: 9 });
  await waitUntil(async () => (await outboxCounts(database)).dead === 2, { what: 'both are dead' });
  const count = async (selection: object) => (await app.outbox.discard(selection as never, audit)).selected;
  expect(await count({ receiver: 'amy' })).toBe(0);
  expect(await count({ errorContains: "'; DROP TABLE x" })).toBe(0);
  expect(await count({ errorKind: 'unknown-number', errorContains: 'such', subject: 's1', attemptsAtLeast: 2 })).toBe(
    0,
  );
  expect(await count({ failedTo: '2020-01-01T00:00:00Z' })).toBe(0);
  expect(await count({ receiver: 'bob', subject: 's1', receivedFrom: new Date(0), attemptsAtLeast: 1 })).toBe(1);
  expect(await count({ all: true })).toBe(1);
});

test('of two runs with a message in common one is refused with the id of the other', async () => {
  await dead(3);
  const [row] = await database.query<{ id: number }>('SELECT MIN(id) AS id FROM outbox_message');
  await database.query("INSERT INTO replay_run (id, box, state) VALUES (77, 'outbox', 'pending')");
  await database.query('INSERT INTO replay_item (run_id, message_id) VALUES (77, ?)', [row?.id]);
  const refused = await app.outbox.retry({ all: true }, audit).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(OverlappingRunError);
  expect(refused).toMatchObject({ runId: '77', statusCode: 409 });
  expect(await database.query('SELECT id FROM replay_run')).toEqual([{ id: 77 }]);
});

test('find shows where messages stand, and stats counts them', async () => {
  broken = false;
  const [id] = await app.send({ topic: 't', payload: 1, subject: 'order-1', receiver: 'bob' });
  await app.send({ topic: 't', payload: 2, subject: 'order-1', delay: '1h' });
  await waitUntil(async () => (await outboxCounts(database)).sent === 1, { what: 'one is sent' });
  const states = await app.outbox.find({ subject: 'order-1' });
  expect(states).toMatchObject([
    { status: 'pending', attempts: 0, sentAt: null, nextAttemptAt: expect.any(String) },
    { id, status: 'sent', attempts: 1, receiver: 'bob', nextAttemptAt: null },
  ]);
  expect(await app.outbox.find({ id: id ?? '' })).toHaveLength(1);
  expect(await app.outbox.find({ receiver: 'bob' })).toHaveLength(1);
  await database.query("UPDATE outbox_message SET attempts = 1 WHERE status = 'pending'");
  expect((await app.outbox.find({ subject: 'order-1' }))[0]?.status).toBe('failed');
  const { counts, oldestDueMs } = await app.outbox.stats();
  expect(counts).toMatchObject({ sent: { count: 1, more: false }, failed: { count: 1 }, pending: { count: 0 } });
  expect(oldestDueMs).toBeNull();
  await expect(app.outbox.find({} as never)).rejects.toThrow(/query: write one of/);
});
