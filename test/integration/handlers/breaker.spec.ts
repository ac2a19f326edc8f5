// The breaker of a source and type, on a real server: what it closes off, what flows on, how it opens and closes again.

import { type InboxParts, inboxPartsToken } from '../../../src/inbox/index.js';
import { type BreakerOptions, PermanentFailureError } from '../../../src/index.js';
import { drainInbox } from '../../../src/testing/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { gate } from '../../support/gate.js';
import { type InboxApp, type InboxAppOptions, pushJson, startInboxApp } from '../../support/inbox-app.js';
import { waitUntil } from '../../support/wait-until.js';

let database: TestDatabase;
let running: InboxApp | undefined;

beforeAll(async () => {
  database = await migrated(await createTestDatabase('breaker'));
});
afterEach(async () => {
  await running?.close();
  running = undefined;
  await database.query('DELETE FROM inbox_message');
});
afterAll(() => database.drop());

async function start(breaker: BreakerOptions | false | undefined, options: InboxAppOptions): Promise<InboxApp> {
  const inbox = { maxRetry: 100, backoff: ['1h'], batchSize: 1_000, ...options.inbox };
  running = await startInboxApp(database, {
    ...options,
    inbox: { ...inbox, ...(breaker === undefined ? {} : { breaker }) },
  });
  return running;
}

const breakers = ({ app }: InboxApp) => app.get<InboxParts>(inboxPartsToken).admission.breakers();
const counts = (type: string) =>
  database.query<{ status: string; attempts: number; n: number }>(
    'SELECT status, attempts, COUNT(*) AS n FROM inbox_message WHERE type = ? GROUP BY status, attempts ORDER BY status, attempts',
    [type],
  );
const pushMany = async ({ inbox }: InboxApp, type: string, count: number) => {
  for (let n = 0; n < count; n++) await pushJson(inbox, { type });
};
/** Everything that was put off or waits for its retry falls due. */
const makeDue = () =>
  database.query("UPDATE inbox_message SET next_attempt_at = '1970-01-01' WHERE status = 'pending'");

test('with the defaults, twenty failures close a type off: its messages are put off without an attempt, others flow', async () => {
  let calls = 0;
  const app = await start(
    {},
    {
      handlers: {
        down: () => {
          calls++;
          throw new Error('the downstream is away');
        },
        fine: () => undefined,
      },
    },
  );
  await pushMany(app, 'down', 45);
  await pushMany(app, 'fine', 5);
  await drainInbox(app.inbox);
  expect(calls).toBe(20);
  expect(await counts('down')).toEqual([
    { status: 'pending', attempts: 0, n: 25 },
    { status: 'pending', attempts: 1, n: 20 },
  ]);
  expect(await counts('fine')).toEqual([{ status: 'success', attempts: 1, n: 5 }]);
  expect(app.events('breaker')).toEqual([{ name: 'breaker', source: 'test', type: 'down', state: 'open' }]);
  expect(app.events('put-off')).toEqual([
    { name: 'put-off', source: 'test', type: 'down', count: 25, reason: 'its breaker is open' },
  ]);
  expect(breakers(app)).toMatchObject([
    { type: 'down', state: 'open' },
    { type: 'fine', state: 'closed', calls: 5, failures: 0, retryInMs: 0 },
  ]);
});

test('while it is open, retries that fall due are put off too, until it may let a probe through', async () => {
  const app = await start(
    { minimumCalls: 2, openFor: '1h' },
    {
      handlers: { down: () => Promise.reject(new Error('away')) },
    },
  );
  await pushMany(app, 'down', 3);
  await drainInbox(app.inbox);
  await makeDue();
  await drainInbox(app.inbox);
  expect(await counts('down')).toEqual([
    { status: 'pending', attempts: 0, n: 1 },
    { status: 'pending', attempts: 1, n: 2 },
  ]);
  const [row] = await database.query<{ minutes: number }>(
    'SELECT MIN(TIMESTAMPDIFF(MINUTE, UTC_TIMESTAMP(), next_attempt_at)) AS minutes FROM inbox_message',
  );
  expect(row?.minutes).toBeGreaterThanOrEqual(58);
});

test('a backlog behind an open breaker is put off in batches, and what comes after it is handled in the same round', async () => {
  const app = await start(
    { minimumCalls: 1, openFor: '1h' },
    {
      handlers: { down: () => Promise.reject(new Error('away')), fine: () => undefined },
    },
  );
  await pushMany(app, 'down', 1);
  await drainInbox(app.inbox);
  await database.query(
    `INSERT INTO inbox_message (source, type, body, received_at, updated_at)
     SELECT 'test', 'down', '{}', UTC_TIMESTAMP(3), UTC_TIMESTAMP(3) FROM information_schema.columns LIMIT 1300`,
  );
  await pushMany(app, 'fine', 1);
  expect(await app.inbox.runOnce()).toEqual(['drained']);
  expect(await counts('fine')).toMatchObject([{ status: 'success' }]);
  const batches = app.events('put-off').map((event) => event.count);
  expect(batches.reduce((sum, count) => sum + count, 0)).toBe(1_300);
  expect(Math.max(...batches)).toBeLessThanOrEqual(500);
});

test('when it may half-open, one message goes first; a failure opens it again, a success lets all through', async () => {
  let healthy = false;
  let calls = 0;
  const app = await start(
    { minimumCalls: 2, openFor: '100ms' },
    {
      handlers: {
        down: () => {
          calls++;
          if (!healthy) throw new Error('away');
        },
      },
    },
  );
  await pushMany(app, 'down', 10);
  await app.inbox.runOnce();
  expect(calls).toBe(2);
  await waitUntil(() => breakers(app)[0]?.retryInMs === 0, { what: 'the breaker may half-open' });
  await makeDue();
  await app.inbox.runOnce();
  expect(calls).toBe(3);
  expect(app.events('breaker').map((event) => event.state)).toEqual(['open', 'half-open', 'open']);
  healthy = true;
  await waitUntil(() => breakers(app)[0]?.retryInMs === 0, { what: 'the breaker may half-open again' });
  await makeDue();
  await app.inbox.runOnce();
  expect((await counts('down')).map((row) => row.status)).toEqual(['success', 'success', 'success']);
  expect(app.events('breaker').map((event) => event.state)).toEqual([
    'open',
    'half-open',
    'open',
    'half-open',
    'closed',
  ]);
});

test('while a probe is under way, the other lanes put theirs off', async () => {
  const entered = gate();
  const leave = gate();
  let probing = false;
  let calls = 0;
  const app = await start(
    { minimumCalls: 1, openFor: '100ms' },
    {
      inbox: { lanes: 4 },
      handlers: {
        down: async () => {
          calls++;
          if (!probing) throw new Error('away');
          entered.open();
          await leave.opened;
        },
      },
    },
  );
  await pushMany(app, 'down', 1);
  await app.inbox.runOnce();
  for (let n = 0; n < 12; n++) await pushJson(app.inbox, { type: 'down', entity: `e${n}` });
  await waitUntil(() => breakers(app)[0]?.retryInMs === 0, { what: 'the breaker may half-open' });
  probing = true;
  const round = app.inbox.runOnce();
  await entered.opened;
  await waitUntil(() => app.events('round').filter((event) => event.end === 'drained').length >= 3, {
    what: 'the other lanes have put theirs off',
  });
  expect(calls).toBe(2);
  leave.open();
  await round;
  expect(app.events('breaker').map((event) => event.state)).toEqual(['open', 'half-open', 'closed']);
});

test('permanent failures are about the message: they do not open it', async () => {
  let calls = 0;
  const app = await start(
    { minimumCalls: 2 },
    {
      handlers: {
        wrong: () => {
          calls++;
          throw new PermanentFailureError('no such contract');
        },
      },
    },
  );
  await pushMany(app, 'wrong', 30);
  await drainInbox(app.inbox);
  expect(calls).toBe(30);
  expect(app.events('breaker')).toEqual([]);
});

test('timeouts open it', async () => {
  const app = await start(
    { minimumCalls: 2, openFor: '1h' },
    {
      handlers: {
        hangs: [
          { timeout: 20 },
          (_message, ctx) => new Promise((resolve) => ctx.signal.addEventListener('abort', resolve)),
        ],
      },
    },
  );
  await pushMany(app, 'hangs', 5);
  await drainInbox(app.inbox);
  expect(app.events('breaker')).toMatchObject([{ type: 'hangs', state: 'open' }]);
  expect((await counts('hangs'))[0]).toEqual({ status: 'pending', attempts: 0, n: 3 });
});

test('slow successes open it where slowCall says so', async () => {
  const app = await start(
    { minimumCalls: 2, slowCall: 5, openFor: '1h' },
    {
      handlers: { slow: (_message, ctx) => ctx.manager.query('SELECT SLEEP(0.02)') },
    },
  );
  await pushMany(app, 'slow', 5);
  await drainInbox(app.inbox);
  expect(app.events('breaker')).toMatchObject([{ type: 'slow', state: 'open' }]);
  expect(await counts('slow')).toMatchObject([
    { status: 'pending', n: 3 },
    { status: 'success', n: 2 },
  ]);
});

test('without a breaker every message is tried', async () => {
  let calls = 0;
  const app = await start(false, {
    handlers: {
      down: () => {
        calls++;
        throw new Error('away');
      },
    },
  });
  await pushMany(app, 'down', 45);
  await drainInbox(app.inbox);
  expect(calls).toBe(45);
  expect(breakers(app)).toEqual([]);
});

test('the order of an entity is kept over an open breaker', async () => {
  const handled: string[] = [];
  let healthy = false;
  const app = await start(
    { minimumCalls: 1, openFor: '100ms' },
    {
      handlers: {
        down: (message) => {
          if (!healthy) throw new Error('away');
          handled.push(message.id);
        },
        fine: (message) => void handled.push(message.id),
      },
    },
  );
  const ids: string[] = [];
  for (const type of ['down', 'fine', 'down', 'fine']) ids.push(await pushJson(app.inbox, { type, entity: 'e' }));
  await drainInbox(app.inbox);
  expect(handled).toEqual([]);
  healthy = true;
  await waitUntil(() => breakers(app)[0]?.retryInMs === 0, { what: 'the breaker may half-open' });
  await makeDue();
  await drainInbox(app.inbox);
  expect(handled).toEqual(ids);
});
