// Limits, breaker, ambient context and bounds of @InboxBatchHandler on a real server: a call counts once, whatever its size.
import { Injectable, type Type } from '@nestjs/common';
import {
  currentMessage,
  type InboxBatchContext,
  InboxBatchHandler,
  type InboxBatchHandlerOptions,
  type InboxMessage,
  type InboxOptions,
} from '../../../src/index.js';
import { drainInbox } from '../../../src/testing/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { gate } from '../../support/gate.js';
import { type InboxApp, pushJson, startInboxApp, type TestHandler } from '../../support/inbox-app.js';
import { waitUntil } from '../../support/wait-until.js';

type Message = InboxMessage<Record<string, unknown>>;
type Call = (messages: readonly Message[], ctx: InboxBatchContext) => unknown;

let database: TestDatabase;
let running: InboxApp | undefined;

beforeAll(async () => {
  database = await migrated(await createTestDatabase('batch_limits'));
});
afterEach(async () => {
  await running?.close();
  running = undefined;
  await database.query('DELETE FROM inbox_message');
  await database.query('DELETE FROM mailroom_lease');
});
afterAll(() => database.drop());

function handlerOf(options: InboxBatchHandlerOptions, call: Call): Type {
  @Injectable()
  class Batches {
    @InboxBatchHandler('b', { source: 'test', ...options })
    async handle(messages: readonly Message[], ctx: InboxBatchContext) {
      await call(messages, ctx);
    }
  }
  return Batches;
}

async function start(
  options: InboxBatchHandlerOptions,
  call: Call,
  inbox: Partial<InboxOptions> = {},
  handlers: Readonly<Record<string, TestHandler>> = {},
): Promise<InboxApp> {
  running = await startInboxApp(database, { inbox, handlers, providers: [handlerOf(options, call)] });
  return running;
}

/** Stores messages past the intake: `{ n, group }`, the groups in turn. */
async function store(count: number, { groups = 1, lanes = 1 } = {}): Promise<void> {
  await database.query(
    `INSERT INTO inbox_message (source, type, lane, body, received_at, updated_at)
     SELECT 'test', 'b', n % ?, CONCAT('{"n":', n, ',"group":', n % ?, '}'), UTC_TIMESTAMP(3), UTC_TIMESTAMP(3)
       FROM (SELECT ROW_NUMBER() OVER () AS n FROM information_schema.columns LIMIT ${count}) numbers`,
    [lanes, groups],
  );
}

const rows = () =>
  database.query<{ status: string; attempts: number; n: number }>(
    'SELECT status, attempts, COUNT(*) AS n FROM inbox_message GROUP BY status, attempts ORDER BY status, attempts',
  );
const allDone = () =>
  waitUntil(async () => (await rows()).every(({ status }) => status === 'success' || status === 'failed'), {
    what: 'every message is finished',
    timeoutMs: 40_000,
  });
const numbers = (messages: readonly Message[]) => messages.map((message) => Number(message.json.n));
const mostInOneSecond = (calls: readonly number[]) =>
  Math.max(...calls.map((at) => calls.filter((other) => other >= at && other < at + 1_000).length));

describe('limits count calls', () => {
  test('a rate is never exceeded in any second, and calls stay full', async () => {
    const calls: number[] = [];
    const sizes: number[] = [];
    await start(
      { size: 10, ratePerSecond: 5 },
      (messages) => {
        calls.push(performance.now());
        sizes.push(messages.length);
      },
      { enabled: true },
    );
    await store(150);
    await allDone();
    expect(mostInOneSecond(calls)).toBeLessThanOrEqual(5);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(150);
    expect(sizes.length).toBeLessThanOrEqual(20);
    expect(await rows()).toEqual([{ status: 'success', attempts: 1, n: 150 }]);
  });

  test('the groups of one batch are calls of their own', async () => {
    const calls: number[] = [];
    await start(
      { ratePerSecond: 10, groupBy: (message) => message.json.group },
      () => void calls.push(performance.now()),
      { enabled: true },
    );
    await store(100, { groups: 40 });
    await allDone();
    expect(mostInOneSecond(calls)).toBeLessThanOrEqual(10);
    expect(await rows()).toEqual([{ status: 'success', attempts: 1, n: 100 }]);
  });

  test('a batch that waits too long for its limit lets other types go on', async () => {
    const seen: string[] = [];
    const app = await start(
      { ratePerSecond: 0.1, groupBy: (message) => message.json.group },
      () => void seen.push('b'),
      {},
      { other: () => void seen.push('other') },
    );
    await store(3, { groups: 3 });
    await pushJson(app.inbox, { type: 'other' });
    await app.inbox.runOnce();
    expect(seen).toEqual(['b', 'other']);
    expect(await rows()).toEqual([
      { status: 'pending', attempts: 0, n: 2 },
      { status: 'success', attempts: 1, n: 2 },
    ]);
  });

  test('maxConcurrent holds over lanes', async () => {
    let now = 0;
    let most = 0;
    await start(
      { size: 5, maxConcurrent: 1 },
      async () => {
        most = Math.max(most, ++now);
        await new Promise((resolve) => setImmediate(resolve));
        now--;
      },
      { enabled: true, lanes: 4, tick: 20, roundInterval: 50 },
    );
    await store(80, { lanes: 4 });
    await allDone();
    expect(most).toBe(1);
  });

  test.each<[string, InboxBatchHandlerOptions, string]>([
    ['a name without numbers', { limitBy: 'erp' }, "limitBy 'erp' limits nothing"],
    ['a rate of zero', { ratePerSecond: 0 }, '@InboxBatchHandler of Batches.handle.ratePerSecond'],
    ['an option of single handlers', { transactional: false } as InboxBatchHandlerOptions, 'transactional'],
  ])('%s is refused at start-up', async (_what, options, text) => {
    await expect(start(options, () => undefined)).rejects.toThrow(text);
  });
});

describe('the breaker', () => {
  const breaker = { minimumCalls: 3, openFor: '1h' };

  test('counts a call once, and closes the type off when enough of them failed', async () => {
    let calls = 0;
    const app = await start(
      { size: 10, onFailure: 'dead' },
      () => {
        calls++;
        throw new Error('the downstream is away');
      },
      { breaker },
      { other: () => undefined },
    );
    await store(100);
    await pushJson(app.inbox, { type: 'other' });
    await drainInbox(app.inbox);
    expect(calls).toBe(3);
    expect(await rows()).toEqual([
      { status: 'failed', attempts: 1, n: 30 },
      { status: 'pending', attempts: 0, n: 70 },
      { status: 'success', attempts: 1, n: 1 },
    ]);
  });

  test('opens while a batch is done one by one: the rest is given back, no attempt counted', async () => {
    const app = await start(
      { size: 10 },
      () => {
        throw new Error('the downstream is away');
      },
      { breaker, backoff: ['1h'] },
    );
    await store(10);
    await drainInbox(app.inbox);
    expect(await rows()).toEqual([
      { status: 'pending', attempts: 0, n: 8 },
      { status: 'pending', attempts: 1, n: 2 },
    ]);
  });

  test('that opens at every failure does not keep a poison message from its end', async () => {
    await start(
      { size: 10, maxRetry: 0 },
      (messages) => {
        if (numbers(messages).includes(5)) throw new Error('not this one');
      },
      { breaker: { minimumCalls: 1, failureRate: 0.01, openFor: 100 }, enabled: true, tick: 20, roundInterval: 50 },
    );
    await store(10);
    await allDone();
    expect(await rows()).toEqual([
      { status: 'failed', attempts: 1, n: 1 },
      { status: 'success', attempts: 1, n: 9 },
    ]);
  });

  test('that is half open lets a batch through', async () => {
    let away = true;
    const sizes: number[] = [];
    const app = await start(
      { size: 10, onFailure: 'dead' },
      (messages) => {
        sizes.push(messages.length);
        if (away) throw new Error('the downstream is away');
      },
      { breaker: { minimumCalls: 1, openFor: 100 }, enabled: true, tick: 20, roundInterval: 50 },
    );
    await store(10);
    await waitUntil(() => app.events('breaker').length > 0, { what: 'it is open' });
    away = false;
    await store(30);
    await allDone();
    expect(app.events('breaker').map(({ state }) => state)).toEqual(['open', 'half-open', 'closed']);
    expect(sizes).toEqual([10, 10, 10, 10]);
  });
});

describe('context', () => {
  test('currentMessage() gives the message of during(), and that of a call for one', async () => {
    const seen: (string | undefined)[] = [];
    const app = await start({ size: 2 }, async (messages, ctx) => {
      seen.push(currentMessage()?.messageId);
      for (const message of messages) {
        await ctx.during(message, async () => {
          await ctx.manager.query('SELECT 1');
          seen.push(currentMessage()?.messageId);
        });
      }
    });
    const ids = [];
    for (let n = 0; n < 3; n++) ids.push(await pushJson(app.inbox, { type: 'b' }));
    await drainInbox(app.inbox);
    expect(seen).toEqual([undefined, ids[0], ids[1], ids[2], ids[2]]);
  });

  test('attemptOf() tells the attempt of each message, also where they differ', async () => {
    const attempts: number[][] = [];
    const app = await start({ maxRetry: 1 }, (messages, ctx) => {
      attempts.push(messages.map((message) => ctx.attemptOf(message)));
      const [first] = messages;
      if (attempts.length === 1 && first) ctx.fail(first, new Error('not yet'));
    });
    await store(2);
    await app.inbox.runOnce();
    await store(1);
    await database.query("UPDATE inbox_message SET next_attempt_at = '1970-01-01' WHERE status = 'pending'");
    await drainInbox(app.inbox);
    expect(attempts).toEqual([
      [1, 1],
      [2, 1],
    ]);
  });
});

describe('bounds', () => {
  test('the bodies of one call have 16 MiB at most, and large ones are grouped by what is in them', async () => {
    const calls: number[] = [];
    const app = await start(
      { groupBy: (message) => message.json.group },
      (messages) => void calls.push(messages.length),
    );
    for (let n = 0; n < 20; n++) {
      await database.query(
        `INSERT INTO inbox_message (source, type, body, received_at, updated_at)
         VALUES ('test', 'b', CONCAT('{"group":1,"text":"', REPEAT('x', 1000000), '"}'), UTC_TIMESTAMP(3), UTC_TIMESTAMP(3))`,
      );
    }
    await drainInbox(app.inbox);
    expect(calls).toEqual([16, 4]);
  });

  test('calls that run out of time end the round within a batch too; the rest is given back', async () => {
    const leave = gate();
    let calls = 0;
    const app = await start(
      { timeout: 20, groupBy: (message) => message.json.group },
      async () => {
        calls++;
        await leave.opened;
      },
      { timeoutsPerRound: 2 },
    );
    await store(5, { groups: 5 });
    expect(await app.inbox.runOnce()).toEqual(['timeouts']);
    expect(calls).toBe(2);
    expect(await rows()).toEqual([
      { status: 'pending', attempts: 0, n: 3 },
      { status: 'processing', attempts: 1, n: 2 },
    ]);
    leave.open();
    await waitUntil(async () => (await rows()).every(({ status }) => status === 'pending'), { what: 'they are back' });
  });

  test('an instance that stops finishes the call in work and gives back the others of the batch', async () => {
    const entered = gate();
    const leave = gate();
    await store(5, { groups: 5 });
    const app = await start(
      { groupBy: (message) => message.json.group },
      async () => {
        entered.open();
        await leave.opened;
      },
      { enabled: true },
    );
    await entered.opened;
    const closing = app.close();
    running = undefined;
    leave.open();
    await closing;
    expect(await rows()).toEqual([
      { status: 'pending', attempts: 0, n: 4 },
      { status: 'success', attempts: 1, n: 1 },
    ]);
  });

  test('claims are kept while a batch waits for more than the lease lasts', async () => {
    const calls: number[] = [];
    const app = await start({ size: 2, maxWait: '10s' }, (messages) => void calls.push(messages.length), {
      lease: { ttl: 1_000, renew: 200 },
    });
    await store(1);
    const round = app.inbox.runOnce();
    await waitUntil(() => app.events('lease-renewed').length >= 8, { what: 'the lease was renewed again and again' });
    await app.inbox.recoverOnce();
    await store(1);
    await round;
    expect(calls).toEqual([2]);
    expect(app.events('recovered')).toEqual([]);
  });
});
