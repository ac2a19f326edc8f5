// @InboxBatchHandler: many messages in one call and one transaction, and what becomes of them when it fails. On a real
// server, driven by runOnce().
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

type Message = InboxMessage<Record<string, unknown>>;
type Call = (messages: readonly Message[], ctx: InboxBatchContext) => unknown;

let database: TestDatabase;
const running: InboxApp[] = [];

beforeAll(async () => {
  database = await migrated(await createTestDatabase('batch'));
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
  const started = await startInboxApp(database, { ...app, providers: [Batches] });
  running.push(started);
  return started;
}

async function push(app: InboxApp, ...bodies: Record<string, unknown>[]): Promise<string[]> {
  const ids: string[] = [];
  for (const body of bodies) ids.push(await pushJson(app.inbox, { type: 'b', ...body }));
  return ids;
}

const numbered = (count: number) => Array.from({ length: count }, (_, n) => ({ n: n + 1 }));
const numbers = (messages: readonly Message[]) => messages.map((message) => Number(message.json.n));
const rows = () =>
  database.query<{ status: string; attempts: number; kind: string | null }>(
    'SELECT m.status, m.attempts, m.error_kind AS kind FROM inbox_message m ORDER BY m.id',
  );
const effects = async () =>
  (await database.query<{ note: string }>('SELECT note FROM effect ORDER BY id')).map((row) => row.note);
const write = async (messages: readonly Message[], ctx: InboxBatchContext) => {
  for (const message of messages) await ctx.manager.query('INSERT INTO effect (note) VALUES (?)', [message.json.n]);
};

test('messages come in order, at most `size` at a time, and succeed with what was written for them', async () => {
  const calls: number[][] = [];
  const app = await start({ size: 60 }, async (messages, ctx) => {
    calls.push(numbers(messages));
    await write(messages, ctx);
  });
  await push(app, ...numbered(130));
  await drainInbox(app.inbox);
  expect(calls.map((call) => call.length)).toEqual([60, 60, 10]);
  expect(calls.flat()).toEqual(numbered(130).map(({ n }) => n));
  expect((await effects()).length).toBe(130);
  expect(new Set((await rows()).map((row) => JSON.stringify(row)))).toEqual(
    new Set([JSON.stringify({ status: 'success', attempts: 1, kind: null })]),
  );
});

test('only consecutive messages of the type are taken together, so nothing passes a message of another type', async () => {
  const seen: string[] = [];
  const app = await start({}, (messages) => void seen.push(`b${numbers(messages).join()}`), {
    handlers: { one: () => void seen.push('one') },
  });
  await push(app, { n: 1 }, { n: 2 }, { type: 'one' }, { n: 3 });
  await drainInbox(app.inbox);
  expect(seen).toEqual(['b1,2', 'one', 'b3']);
});

test('a message that the handler names failed is retried, and the rest succeeds', async () => {
  const app = await start({ maxRetry: 0 }, async (messages, ctx) => {
    for (const message of messages) {
      if (message.json.n === 2) ctx.fail(message, new PermanentFailureError('another state', { kind: 'conflict' }));
      else await write([message], ctx);
    }
  });
  await push(app, ...numbered(3));
  await drainInbox(app.inbox);
  expect(await rows()).toEqual([
    { status: 'success', attempts: 1, kind: null },
    { status: 'failed', attempts: 1, kind: 'conflict' },
    { status: 'success', attempts: 1, kind: null },
  ]);
  expect(await effects()).toEqual(['1', '3']);
});

test('when every message of a call is named failed, nothing that it wrote is kept', async () => {
  const app = await start({ maxRetry: 0 }, async (messages, ctx) => {
    await write(messages, ctx);
    for (const message of messages) ctx.fail(message, new Error('neither'));
  });
  await push(app, ...numbered(2));
  await drainInbox(app.inbox);
  expect(await effects()).toEqual([]);
  expect((await rows()).map((row) => row.status)).toEqual(['failed', 'failed']);
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

test("with onFailure 'dead' a call that throws sends all of its messages to failed", async () => {
  let calls = 0;
  const app = await start({ onFailure: 'dead' }, async (messages, ctx) => {
    calls++;
    await write(messages, ctx);
    throw new Error('nothing of it');
  });
  await push(app, ...numbered(3));
  await drainInbox(app.inbox);
  expect(calls).toBe(1);
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

test('a message that waits for its retry is not passed by a later one of its entity in the same batch', async () => {
  const done: string[] = [];
  let failures = 2;
  const app = await start(
    {},
    (messages) => {
      for (const message of messages) if (message.json.n === 1 && failures-- > 0) throw new Error('not yet');
      done.push(...messages.map((message) => `${message.json.entity}${message.json.n}`));
    },
    { inbox: { backoff: ['1h'] } },
  );
  await push(app, { entity: 'a', n: 1 }, { entity: 'b', n: 2 }, { entity: 'a', n: 3 });
  await drainInbox(app.inbox);
  expect(done).toEqual(['b2']);
  // The attempt that it did not get was given back.
  expect((await rows()).map((row) => [row.status, row.attempts])).toEqual([
    ['pending', 1],
    ['success', 1],
    ['held', 0],
  ]);
  await database.query("UPDATE inbox_message SET next_attempt_at = '1970-01-01' WHERE status = 'pending'");
  await drainInbox(app.inbox);
  expect(done).toEqual(['b2', 'a1', 'a3']);
});

test('a message named failed with a later one of its entity in the call makes the call count as failed', async () => {
  const done: number[] = [];
  const app = await start(
    {},
    (messages, ctx) => {
      for (const message of messages) {
        if (message.json.n === 1) ctx.fail(message, new Error('not yet'));
        else done.push(Number(message.json.n));
      }
      if (messages.length > 1) done.length = 0;
    },
    { inbox: { backoff: ['1h'] } },
  );
  await push(app, { entity: 'a', n: 1 }, { entity: 'a', n: 2 }, { entity: 'b', n: 3 });
  await drainInbox(app.inbox);
  expect(done).toEqual([3]);
  expect((await rows()).map((row) => row.status)).toEqual(['pending', 'held', 'success']);
});

describe('groupBy', () => {
  const byGroup: InboxBatchHandlerOptions = { groupBy: (message) => message.json.group };

  test('each call gets the messages of one group, in order, and no lock row is left behind', async () => {
    const calls: number[][] = [];
    const app = await start(byGroup, (messages) => void calls.push(numbers(messages)));
    await push(app, { n: 1, group: 'x' }, { n: 2, group: 'y' }, { n: 3, group: 'x' }, { n: 4, group: 'y' });
    await drainInbox(app.inbox);
    expect(calls).toEqual([
      [1, 3],
      [2, 4],
    ]);
    expect(await database.query("SELECT name FROM mailroom_lease WHERE name LIKE 'inbox:group:%'")).toEqual([]);
  });

  test('the lock row of a call that was rolled back is swept with recovery', async () => {
    const app = await start({ ...byGroup, maxRetry: 0 }, () => {
      throw new Error('not this one');
    });
    await push(app, { n: 1, group: 'x' });
    await drainInbox(app.inbox);
    const left = () => database.query("SELECT name FROM mailroom_lease WHERE name LIKE 'inbox:group:%'");
    expect(await left()).toHaveLength(1);
    await app.inbox.recoverOnce();
    expect(await left()).toEqual([]);
  });

  test('an entity whose messages are in different groups keeps its order', async () => {
    const calls: number[][] = [];
    const app = await start(byGroup, (messages) => void calls.push(numbers(messages)));
    await push(app, { n: 1, group: 'x' }, { n: 2, group: 'y', entity: 'e' }, { n: 3, group: 'x', entity: 'e' });
    await drainInbox(app.inbox);
    expect(calls).toEqual([[1], [2], [3]]);
  });

  test('a group that is in work elsewhere goes back to pending, its attempt given back, and the others go on', async () => {
    const entered = gate();
    const leave = gate();
    const options = { inbox: { lanes: 2 } };
    const one = await start(
      byGroup,
      async () => {
        entered.open();
        await leave.opened;
      },
      options,
    );
    const calls: number[][] = [];
    const other = await start(byGroup, (messages) => void calls.push(numbers(messages)), options);
    const [first] = await push(one, { n: 1, group: 'x' });
    await database.query('UPDATE inbox_message SET lane = 1 WHERE id = ?', [first]);
    const rounds = one.inbox.runOnce();
    await entered.opened;
    await push(other, { n: 2, group: 'x' }, { n: 3, group: 'y' });
    await other.inbox.runOnce();
    expect(calls).toEqual([[3]]);
    expect((await rows())[1]).toEqual({ status: 'pending', attempts: 0, kind: null });
    leave.open();
    await rounds;
    await database.query("UPDATE inbox_message SET next_attempt_at = '1970-01-01' WHERE status = 'pending'");
    await drainInbox(other.inbox);
    expect(calls).toEqual([[3], [2]]);
  });
});

test('a message whose last attempt ended with its process is called alone, not with its neighbours', async () => {
  const calls: number[][] = [];
  const app = await start({}, (messages) => void calls.push(numbers(messages)));
  const ids = await push(app, ...numbered(5));
  for (const id of [ids[0], ids[3]])
    await database.query("UPDATE inbox_message SET error_kind = 'orphaned', attempts = 1 WHERE id = ?", [id]);
  await drainInbox(app.inbox);
  expect(calls).toEqual([[1], [2, 3], [4], [5]]);
});

test('a batch that is not full waits maxWait for more', async () => {
  const calls: number[][] = [];
  const app = await start({ size: 2, maxWait: '10s' }, (messages) => void calls.push(numbers(messages)));
  await push(app, { n: 1 });
  const round = app.inbox.runOnce();
  await push(app, { n: 2 });
  await round;
  expect(calls).toEqual([[1, 2]]);
});

test('a holder that lost its lane while the handler ran commits nothing of the batch', async () => {
  const app = await start({}, async (messages, ctx) => {
    await write(messages, ctx);
    await database.query("UPDATE mailroom_lease SET fence = fence + 1 WHERE name = 'inbox:lane:0'");
  });
  await push(app, ...numbered(2));
  await app.inbox.runOnce();
  expect(await effects()).toEqual([]);
  expect((await rows()).map((row) => row.status)).toEqual(['processing', 'processing']);
  expect(app.events('claim-lost')).toHaveLength(2);
});

test('a message whose claim was taken away while the handler ran takes the whole batch with it', async () => {
  const app = await start({}, async (messages, ctx) => {
    await write(messages, ctx);
    await database.query('UPDATE inbox_message SET claim_token = REVERSE(claim_token) WHERE id = ?', [messages[0]?.id]);
  });
  await push(app, ...numbered(2));
  await app.inbox.runOnce();
  expect(await effects()).toEqual([]);
  expect((await rows()).map((row) => row.status)).toEqual(['processing', 'processing']);
});

test('where nothing was written, a message whose claim was taken away is lost alone', async () => {
  const app = await start({}, async (messages) => {
    await database.query('UPDATE inbox_message SET claim_token = REVERSE(claim_token) WHERE id = ?', [messages[0]?.id]);
  });
  const [first] = await push(app, ...numbered(3));
  await app.inbox.runOnce();
  expect((await rows()).map((row) => row.status)).toEqual(['processing', 'success', 'success']);
  expect(app.events('claim-lost').map(({ id }) => id)).toEqual([first]);
  expect(app.events('succeeded')).toHaveLength(2);
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
});

test('a type that a batch handler and a single handler both claim is refused at start-up', async () => {
  await expect(start({}, () => undefined, { handlers: { b: () => undefined } })).rejects.toThrow(
    'one message has one handler',
  );
  await expect(start({ size: 0 }, () => undefined)).rejects.toThrow('@InboxBatchHandler of Batches.handle.size');
});
