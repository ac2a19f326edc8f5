// @InboxBatchHandler with competing consumers: many messages in one call, each held by its own claim. On a real server,
// driven by runOnce().
import { Injectable } from '@nestjs/common';
import {
  type InboxBatchContext,
  InboxBatchHandler,
  type InboxBatchHandlerOptions,
  type InboxMessage,
  PermanentFailureError,
} from '../../../src/index.js';
import { drainInbox } from '../../../src/testing/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { gate } from '../../support/gate.js';
import { type InboxApp, type InboxAppOptions, pushJson, startInboxApp } from '../../support/inbox-app.js';
import { waitUntil } from '../../support/wait-until.js';

type Message = InboxMessage<Record<string, unknown>>;
type Call = (messages: readonly Message[], ctx: InboxBatchContext) => unknown;

let database: TestDatabase;
const running: InboxApp[] = [];

beforeAll(async () => {
  database = await migrated(await createTestDatabase('batch_competing'));
  await database.query('CREATE TABLE effect (id INT AUTO_INCREMENT PRIMARY KEY, note VARCHAR(200), UNIQUE (note))');
});
afterEach(async () => {
  for (const app of running.splice(0)) await app.close();
  await database.query('DELETE FROM inbox_message');
  await database.query('DELETE FROM effect');
  await database.query('DELETE FROM mailroom_lease');
});
afterAll(() => database.drop());

async function start(options: InboxBatchHandlerOptions, call: Call, app: InboxAppOptions = {}): Promise<InboxApp> {
  @Injectable()
  class Batches {
    @InboxBatchHandler('b', { source: 'test', ...options })
    async handle(messages: readonly Message[], ctx: InboxBatchContext) {
      await call(messages, ctx);
    }
  }
  const started = await startInboxApp(database, {
    ...app,
    inbox: { mode: 'competing', concurrency: 1, roundInterval: 20, ...app.inbox },
    providers: [Batches],
  });
  running.push(started);
  return started;
}

let pushed = 0;
async function push(app: InboxApp, ...bodies: Record<string, unknown>[]): Promise<string[]> {
  const ids: string[] = [];
  for (const body of bodies) ids.push(await pushJson(app.inbox, { type: 'b', id: `m${++pushed}`, ...body }));
  return ids;
}

const numbered = (count: number) => Array.from({ length: count }, (_, n) => ({ n: n + 1 }));
const numbers = (messages: readonly Message[]) => messages.map((message) => Number(message.json.n));
const rows = () =>
  database.query<{ status: string; attempts: number; kind: string | null }>(
    'SELECT m.status, m.attempts, m.error_kind AS kind FROM inbox_message m ORDER BY m.id',
  );
const effects = async () =>
  (await database.query<{ note: string }>('SELECT note FROM effect ORDER BY note + 0')).map((row) => row.note);
const write = async (messages: readonly Message[], ctx: InboxBatchContext) => {
  for (const message of messages) await ctx.manager.query('INSERT INTO effect (note) VALUES (?)', [message.json.n]);
};

test('what is claimed together is handed over together, at most `size`, beside messages of other types', async () => {
  const calls: number[][] = [];
  const app = await start(
    { size: 20 },
    async (messages, ctx) => {
      calls.push(numbers(messages));
      await write(messages, ctx);
    },
    { handlers: { one: () => undefined } },
  );
  for (const body of numbered(50)) await push(app, body, { type: 'one' });
  await drainInbox(app.inbox);
  // 25 of each claim of 50 are of the type.
  expect(calls.map((call) => call.length)).toEqual([20, 5, 20, 5]);
  expect(new Set(calls.flat()).size).toBe(50);
  expect(await effects()).toHaveLength(50);
  expect(new Set((await rows()).map((row) => JSON.stringify(row)))).toEqual(
    new Set([JSON.stringify({ status: 'success', attempts: 1, kind: null })]),
  );
});

test('a call takes one place of `concurrency`, and two calls run beside each other', async () => {
  const leave = gate();
  let inWork = 0;
  const app = await start(
    { size: 10 },
    async () => {
      inWork++;
      await leave.opened;
    },
    { inbox: { concurrency: 2 } },
  );
  await push(app, ...numbered(30));
  const round = app.inbox.runOnce();
  await waitUntil(() => inWork === 2, { what: 'two calls run' });
  expect((await rows()).map(({ status }) => status)).toEqual(Array(30).fill('processing'));
  leave.open();
  await round;
  await drainInbox(app.inbox);
  expect(inWork).toBe(3);
});

test('a message that the handler names failed is failed, and the rest succeeds', async () => {
  const app = await start({ maxRetry: 0 }, async (messages, ctx) => {
    for (const message of messages) {
      if (message.json.n === 2) ctx.fail(message, new PermanentFailureError('another state', { kind: 'conflict' }));
      else await write([message], ctx);
    }
  });
  await push(app, ...numbered(3));
  await drainInbox(app.inbox);
  expect((await rows()).map((row) => [row.status, row.kind])).toEqual([
    ['success', null],
    ['failed', 'conflict'],
    ['success', null],
  ]);
  expect(await effects()).toEqual(['1', '3']);
});

test('a call that throws is rolled back and done one by one: only the guilty message fails', async () => {
  const calls: number[][] = [];
  const app = await start({ maxRetry: 0 }, async (messages, ctx) => {
    calls.push(numbers(messages));
    await write(messages, ctx);
    if (messages.some((message) => message.json.n === 2)) throw new TypeError('not this one');
  });
  await push(app, ...numbered(3));
  await drainInbox(app.inbox);
  expect(calls).toEqual([[1, 2, 3], [1], [2], [3]]);
  expect(await effects()).toEqual(['1', '3']);
  expect((await rows()).map((row) => [row.status, row.kind])).toEqual([
    ['success', null],
    ['failed', 'TypeError'],
    ['success', null],
  ]);
});

test('an open breaker between the calls gives the rest back, and they are tried one by one when it lets a call through', async () => {
  const calls: number[][] = [];
  const app = await start(
    { maxRetry: 5 },
    (messages) => {
      calls.push(numbers(messages));
      if (messages.some((message) => message.json.n === 2)) throw new Error('not this one');
    },
    {
      inbox: {
        backoff: ['1h'],
        breaker: { failureRate: 0.5, minimumCalls: 1, window: '10s', openFor: '100ms' },
      },
    },
  );
  await push(app, ...numbered(3));
  await waitUntil(
    async () => {
      await app.inbox.runOnce();
      return (await rows()).filter(({ status }) => status === 'success').length === 2;
    },
    { what: 'the innocent ones are done' },
  );
  expect(calls.filter((call) => call.length > 1)).toEqual([[1, 2, 3]]);
  expect((await rows()).map((row) => [row.status, row.attempts])).toEqual([
    ['success', 1],
    ['pending', 1],
    ['success', 1],
  ]);
});

test("with onFailure 'dead' a call that throws sends all of its messages to failed", async () => {
  const app = await start({ onFailure: 'dead' }, async (messages, ctx) => {
    await write(messages, ctx);
    throw new Error('nothing of it');
  });
  await push(app, ...numbered(3));
  await drainInbox(app.inbox);
  expect(await effects()).toEqual([]);
  expect((await rows()).map((row) => [row.status, row.attempts])).toEqual(Array(3).fill(['failed', 1]));
});

test('a database error rolls the batch back and retries it as a whole', async () => {
  const calls: number[][] = [];
  const app = await start({ onFailure: 'dead' }, async (messages, ctx) => {
    calls.push(numbers(messages));
    await write(messages, ctx);
    if (calls.length > 1) return;
    const [row] = (await ctx.manager.query('SELECT CONNECTION_ID() AS id')) as { id: number }[];
    await database.query('KILL ?', [row?.id]);
    await ctx.manager.query('SELECT 1');
  });
  await push(app, ...numbered(3));
  await drainInbox(app.inbox);
  expect(calls).toEqual([
    [1, 2, 3],
    [1, 2, 3],
  ]);
  expect(await effects()).toEqual(['1', '2', '3']);
  expect((await rows()).map((row) => [row.status, row.attempts])).toEqual(Array(3).fill(['success', 2]));
});

test('a limit counts calls, not messages', async () => {
  const calls: number[][] = [];
  const app = await start({ maxConcurrent: 1 }, (messages) => void calls.push(numbers(messages)), {
    inbox: { concurrency: 4 },
  });
  await push(app, ...numbered(30));
  await drainInbox(app.inbox);
  expect(calls.map((call) => call.length)).toEqual([30]);
});

describe('groupBy', () => {
  const byGroup: InboxBatchHandlerOptions = { groupBy: (message) => message.json.group };

  test('each call gets the messages of one group, and no lock row is left behind', async () => {
    const calls: number[][] = [];
    const app = await start(byGroup, async (messages, ctx) => {
      calls.push(numbers(messages));
      await write(messages, ctx);
    });
    await push(app, { n: 1, group: 'x' }, { n: 2, group: 'y' }, { n: 3, group: 'x' }, { n: 4, group: 'y' });
    await drainInbox(app.inbox);
    expect(calls).toEqual([
      [1, 3],
      [2, 4],
    ]);
    expect(await effects()).toEqual(['1', '2', '3', '4']);
    expect(await database.query("SELECT name FROM mailroom_lease WHERE name LIKE 'inbox:group:%'")).toEqual([]);
  });

  test('a group that is in work in this process is waited for', async () => {
    const app = await start({ ...byGroup, size: 1 }, write, { inbox: { concurrency: 4 } });
    await push(app, ...numbered(4).map((body) => ({ ...body, group: 'x' })));
    await app.inbox.runOnce();
    expect((await rows()).map((row) => [row.status, row.attempts])).toEqual(Array(4).fill(['success', 1]));
    expect(app.events('released')).toEqual([]);
  });

  test('a group that is in work in another instance is given back, and the others go on', async () => {
    const entered = gate();
    const leave = gate();
    const one = await start(byGroup, async () => {
      entered.open();
      await leave.opened;
    });
    const calls: number[][] = [];
    const other = await start(byGroup, (messages) => void calls.push(numbers(messages)));
    await push(one, { n: 1, group: 'x' });
    const round = one.inbox.runOnce();
    await entered.opened;
    await push(other, { n: 2, group: 'x' }, { n: 3, group: 'y' });
    await other.inbox.runOnce();
    expect(calls).toEqual([[3]]);
    expect((await rows())[1]).toEqual({ status: 'pending', attempts: 0, kind: null });
    leave.open();
    await round;
    await database.query("UPDATE inbox_message SET next_attempt_at = '1970-01-01' WHERE status = 'pending'");
    await drainInbox(other.inbox);
    expect(calls).toEqual([[3], [2]]);
  });
});

test('a message whose last attempt ended with its process is called alone, with nothing beside it', async () => {
  const calls: number[][] = [];
  const app = await start({}, (messages) => void calls.push(numbers(messages)));
  const ids = await push(app, ...numbered(4));
  await database.query("UPDATE inbox_message SET error_kind = 'orphaned', attempts = 1 WHERE id = ?", [ids[1]]);
  await drainInbox(app.inbox);
  expect(calls.find((call) => call.includes(2))).toEqual([2]);
  expect(calls.flat().sort()).toEqual([1, 2, 3, 4]);
});

test('a message whose claim was taken away while the handler ran takes what the call wrote with it', async () => {
  const app = await start({}, async (messages, ctx) => {
    await write(messages, ctx);
    await database.query('UPDATE inbox_message SET claim_token = REVERSE(claim_token) WHERE id = ?', [messages[0]?.id]);
  });
  await push(app, ...numbered(2));
  await app.inbox.runOnce();
  expect(await effects()).toEqual([]);
  expect((await rows()).map((row) => row.status)).toEqual(['processing', 'processing']);
  expect(app.events('claim-lost')).toHaveLength(2);
});

test('where nothing was written, a message whose claim was taken away is lost alone', async () => {
  const app = await start({}, async (messages) => {
    await database.query('UPDATE inbox_message SET claim_token = REVERSE(claim_token) WHERE id = ?', [messages[0]?.id]);
  });
  const [first] = await push(app, ...numbered(3));
  await app.inbox.runOnce();
  expect((await rows()).map((row) => row.status)).toEqual(['processing', 'success', 'success']);
  expect(app.events('claim-lost').map(({ id }) => id)).toEqual([first]);
});

test('a batch that takes too long is rolled back and waits until its handler has really ended', async () => {
  const leave = gate();
  let calls = 0;
  const app = await start({ timeout: 50 }, async (messages, ctx) => {
    calls++;
    await write(messages, ctx);
    if (calls === 1) await leave.opened;
  });
  await push(app, ...numbered(2));
  await app.inbox.runOnce();
  expect(await effects()).toEqual([]);
  await app.inbox.runOnce();
  expect(calls).toBe(1);
  leave.open();
  await waitUntil(async () => (await rows()).every(({ status }) => status === 'pending'), { what: 'it has ended' });
  await drainInbox(app.inbox);
  expect((await rows()).map((row) => [row.status, row.attempts])).toEqual(Array(2).fill(['success', 2]));
});

test('at a stop the call in work finishes, and what was not started is given back without an attempt', async () => {
  const entered = gate();
  const leave = gate();
  const app = await start({ groupBy: (message) => message.json.n }, async (messages, ctx) => {
    entered.open();
    await leave.opened;
    await write(messages, ctx);
  });
  await push(app, ...numbered(3));
  void app.inbox.runOnce();
  await entered.opened;
  const closed = app.close();
  running.splice(0);
  leave.open();
  await closed;
  expect(await effects()).toEqual(['1']);
  expect((await rows()).map((row) => [row.status, row.attempts])).toEqual([
    ['success', 1],
    ['pending', 0],
    ['pending', 0],
  ]);
});

test('after a call that ran out of time the rest of its batch is given back without an attempt', async () => {
  const calls: number[][] = [];
  const app = await start({ timeout: 50, groupBy: (message) => message.json.n }, async (messages, { signal }) => {
    calls.push(numbers(messages));
    if (calls.length === 1) await new Promise((resolve) => signal.addEventListener('abort', resolve));
  });
  await push(app, ...numbered(3));
  await app.inbox.runOnce();
  expect(calls).toEqual([[1]]);
  expect((await rows()).map((row) => row.attempts)).toEqual([1, 0, 0]);
  await waitUntil(
    async () => {
      await app.inbox.runOnce();
      return (await rows()).every(({ status }) => status === 'success');
    },
    { what: 'all are done' },
  );
});

test('bodies of a call have at most 16 MiB together', async () => {
  const calls: number[][] = [];
  const app = await start({}, (messages) => void calls.push(numbers(messages)), {
    source: { maxBodyBytes: 8_000_000 },
  });
  await push(app, ...numbered(3).map((body) => ({ ...body, fill: 'x'.repeat(6_000_000) })));
  await drainInbox(app.inbox);
  expect(calls).toEqual([[1, 2], [3]]);
});
