// Limits of handlers on a real server, against a downstream that notes when it was called: what it sees, and what flows on
// beside it. The only clock that is asserted on is the downstream's own.
import type { InboxHandlerOptions, InboxOptions } from '../../../src/index.js';
import { drainInbox } from '../../../src/testing/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { type Gate, gate } from '../../support/gate.js';
import { type InboxApp, pushJson, startInboxApp, type TestHandler } from '../../support/inbox-app.js';
import { waitUntil } from '../../support/wait-until.js';

/** Ten seconds of a downstream that takes 30 a second. Long form: LIMIT_SLOTS=1800. */
const watchedSlots = Number(process.env.LIMIT_SLOTS ?? 300);

let database: TestDatabase;
let running: InboxApp | undefined;

beforeAll(async () => {
  database = await migrated(await createTestDatabase('limits'));
});
afterEach(async () => {
  await running?.close();
  running = undefined;
  await database.query('DELETE FROM inbox_message');
});
afterAll(() => database.drop());

async function start(
  handlers: Readonly<Record<string, TestHandler | readonly [InboxHandlerOptions, TestHandler]>>,
  inbox: Partial<InboxOptions> = {},
): Promise<InboxApp> {
  running = await startInboxApp(database, { handlers, inbox });
  return running;
}

/** Stores messages past the intake, which would be slower than what is measured. */
async function store(type: string, count: number, lanes = 1): Promise<void> {
  const chunk = 1_000;
  if (count > chunk) await store(type, count - chunk, lanes);
  await database.query(
    `INSERT INTO inbox_message (source, type, lane, body, received_at, updated_at)
     SELECT 'test', ?, n % ?, '{}', UTC_TIMESTAMP(3), UTC_TIMESTAMP(3)
       FROM (SELECT ROW_NUMBER() OVER () AS n FROM information_schema.columns LIMIT ${Math.min(count, chunk)}) numbers`,
    [type, lanes],
  );
}

const open = async (type: string) =>
  (
    await database.query<{ n: number }>(
      "SELECT COUNT(*) AS n FROM inbox_message WHERE type = ? AND status <> 'success'",
      [type],
    )
  )[0]?.n;
const allDone = (type: string) =>
  waitUntil(async () => (await open(type)) === 0, { what: `all of ${type} are done`, timeoutMs: 40_000 });

/** A timer of 20 ms that comes later than this was stopped with its process. */
const longestTickMs = 100;

/** A downstream that notes when it is called. */
class Downstream {
  readonly calls: number[] = [];
  /** How many calls it could have taken since the second second: the first is a full burst. */
  slots = 0;
  private early = 0;
  private timer: NodeJS.Timeout | undefined;
  readonly call = (): void => void this.calls.push(performance.now());

  /** Counts what it could take from the first call on. A pause of the whole process stops the calls, so it counts little. */
  open(ratePerSecond: number): void {
    let offered = 0;
    let before = performance.now();
    this.timer = setInterval(() => {
      const now = performance.now();
      const passedMs = Math.min(longestTickMs, now - before);
      before = now;
      if (this.calls.length === 0) return;
      offered += (passedMs * ratePerSecond) / 1_000;
      if (offered < ratePerSecond) this.early = this.calls.length;
      else this.slots = offered - ratePerSecond;
    }, 20);
  }

  close(): void {
    clearInterval(this.timer);
  }

  /** Calls per slot. */
  get fill(): number {
    return (this.calls.length - this.early) / this.slots;
  }

  /** The most calls in any window of one second. */
  mostInOneSecond(): number {
    return Math.max(...this.calls.map((at) => this.calls.filter((other) => other >= at && other < at + 1_000).length));
  }
}

test.each([1, 4])(
  'with %i lanes, a downstream of 30 a second never sees more, and is fed at 90 %% or more of what it can take',
  async (lanes) => {
    const downstream = new Downstream();
    await start({ call: [{ ratePerSecond: 30 }, downstream.call] }, { enabled: true, lanes });
    await store('call', 4 * watchedSlots, lanes);
    downstream.open(30);
    try {
      await waitUntil(() => downstream.slots >= watchedSlots && downstream.fill >= 0.9, {
        what: `nine of ten slots are used, over ${watchedSlots} slots or more`,
        timeoutMs: 5_000 + 100 * watchedSlots,
      });
    } finally {
      downstream.close();
    }
    expect(downstream.mostInOneSecond()).toBeLessThanOrEqual(30);
  },
  10_000 + 150 * watchedSlots,
);

test('types at their limit are put off without an attempt, and other types behind them are handled meanwhile', async () => {
  const downstream = new Downstream();
  let callsBeforeFine = Number.POSITIVE_INFINITY;
  const { inbox, events } = await start({
    call: [{ ratePerSecond: 30 }, downstream.call],
    fine: () => {
      callsBeforeFine = downstream.calls.length;
    },
  });
  await store('call', 600);
  await pushJson(inbox, { type: 'fine' });
  const round = inbox.runOnce();
  await waitUntil(async () => (await open('fine')) === 0, { what: 'the other type is handled' });
  expect(callsBeforeFine).toBeLessThanOrEqual(60);
  expect(await open('call')).toBeGreaterThan(300);
  expect(
    await database.query("SELECT DISTINCT attempts FROM inbox_message WHERE type = 'call' AND status = 'pending'"),
  ).toEqual([{ attempts: 0 }]);
  expect(events('put-off')[0]).toMatchObject({ type: 'call', reason: 'its limit is reached' });
  await round;
});

test('a lane waits for a limit that is free again within a second', async () => {
  const downstream = new Downstream();
  const { inbox } = await start({ call: [{ ratePerSecond: 5 }, downstream.call] });
  await store('call', 8);
  expect(await inbox.runOnce()).toEqual(['drained']);
  expect(downstream.calls).toHaveLength(8);
  expect(downstream.mostInOneSecond()).toBeLessThanOrEqual(5);
});

test('after a longer wait the lane is there in time, whatever its interval', async () => {
  const downstream = new Downstream();
  await start({ call: [{ ratePerSecond: 0.8 }, downstream.call] }, { enabled: true, tick: '1m', roundInterval: '1h' });
  await store('call', 1);
  await pushJson((running as InboxApp).inbox, { type: 'call' });
  await waitUntil(() => downstream.calls.length === 2, { what: 'the second one is called' });
  expect(downstream.mostInOneSecond()).toBe(1);
});

test('what is put off is spread over the time that the limit needs, in its order', async () => {
  const { inbox } = await start({ call: [{ ratePerSecond: 10 }, () => undefined] }, { batchSize: 10 });
  await store('call', 111);
  await inbox.runOnce();
  await inbox.runOnce();
  const rows = await database.query<{ id: number; ms: number }>(
    `SELECT m.id, TIMESTAMPDIFF(MICROSECOND, (SELECT MIN(f.next_attempt_at) FROM inbox_message f WHERE f.status = 'pending'),
            m.next_attempt_at) / 1000 AS ms
       FROM inbox_message m WHERE m.status = 'pending' ORDER BY m.id`,
  );
  const steps = rows.slice(1).map((row, n) => Number(row.ms) - Number(rows[n]?.ms));
  expect(rows.length).toBeGreaterThan(80);
  for (const step of steps) expect(Math.abs(step - 90)).toBeLessThanOrEqual(1);
});

test('the limits of one name are one limit', async () => {
  const downstream = new Downstream();
  const erp = { limitBy: 'erp', ratePerSecond: 20 };
  await start({ orders: [erp, downstream.call], stock: [erp, downstream.call] }, { enabled: true });
  await store('orders', 30);
  await store('stock', 30);
  await allDone('orders');
  await allDone('stock');
  expect(downstream.mostInOneSecond()).toBeLessThanOrEqual(20);
});

describe('maxConcurrent', () => {
  let now = 0;
  let most = 0;
  let gates: Gate[] = [];
  const held: TestHandler = async () => {
    most = Math.max(most, ++now);
    const door = gate();
    gates.push(door);
    await door.opened;
    now--;
  };
  beforeEach(() => {
    now = 0;
    most = 0;
    gates = [];
  });

  test('so many handlers run at the same time over all lanes, and the others of the process go on', async () => {
    let fine = 0;
    const { inbox } = await start(
      { held: [{ maxConcurrent: 2 }, held], fine: () => void fine++ },
      { enabled: true, lanes: 6, roundInterval: 50, tick: 20 },
    );
    await store('held', 12, 6);
    await waitUntil(() => gates.length === 2, { what: 'two run' });
    await store('fine', 12, 6);
    for (let lane = 0; lane < 6; lane++) await pushJson(inbox, { type: 'fine', entity: `e${lane}` });
    await waitUntil(() => fine >= 8, { what: 'others are handled in the lanes that wait' });
    expect([now, most]).toEqual([2, 2]);
    const opening = setInterval(() => gates.shift()?.open(), 5);
    await allDone('held').finally(() => clearInterval(opening));
    expect(most).toBe(2);
  });

  test('a place that was taken for a message which somebody else moved is free again', async () => {
    const seen: string[] = [];
    let move = '';
    const { inbox } = await start({
      call: [
        { maxConcurrent: 1 },
        async (message) => {
          seen.push(message.id);
          await database.query(
            'UPDATE inbox_message SET next_attempt_at = UTC_TIMESTAMP() + INTERVAL 1 HOUR WHERE id = ?',
            [move],
          );
        },
      ],
    });
    const ids: string[] = [];
    for (let n = 0; n < 3; n++) ids.push(await pushJson(inbox, { type: 'call' }));
    move = ids[1] ?? '';
    expect(await inbox.runOnce()).toEqual(['drained']);
    expect(seen).toEqual([ids[0], ids[2]]);
  });

  test('a handler that timed out keeps its place until it has ended', async () => {
    let others = 0;
    const shared = { limitBy: 'one', maxConcurrent: 1 };
    const { inbox, events } = await start({
      held: [{ ...shared, timeout: 20, maxRetry: 0 }, held],
      other: [shared, () => void others++],
    });
    await pushJson(inbox, { type: 'held' });
    await inbox.runOnce();
    await pushJson(inbox, { type: 'other' });
    await inbox.runOnce();
    expect([now, others]).toEqual([1, 0]);
    gates[0]?.open();
    await waitUntil(
      async () => {
        await inbox.runOnce();
        return others === 1;
      },
      { what: 'the other one got its place' },
    );
    expect(events('failed')).toMatchObject([{ type: 'held', errorKind: 'timeout' }]);
  });
});

test('the order of an entity is kept over a limit', async () => {
  const handled: string[] = [];
  const note: TestHandler = (message) => void handled.push(message.id);
  const { inbox } = await start({ slow: [{ ratePerSecond: 5 }, note], fast: note });
  const ids: string[] = [];
  for (let n = 0; n < 14; n++) ids.push(await pushJson(inbox, { type: n % 2 ? 'fast' : 'slow', entity: 'e' }));
  await waitUntil(
    async () => {
      await drainInbox(inbox);
      return handled.length === ids.length;
    },
    { what: 'all are handled' },
  );
  expect(handled).toEqual(ids);
});

describe('is refused at start-up', () => {
  test.each<[string, InboxHandlerOptions, string]>([
    ['a rate of zero', { ratePerSecond: 0 }, 'ratePerSecond'],
    ['a rate with a fraction above one', { ratePerSecond: 2.5 }, 'write a whole number from 1 to 10,000'],
    ['a concurrency of zero', { maxConcurrent: 0 }, 'maxConcurrent'],
    ['a name without numbers', { limitBy: 'erp' }, "limitBy 'erp' limits nothing"],
    ['another rate under the same name', { limitBy: 'taken', ratePerSecond: 6 }, 'write the same numbers at both'],
    [
      'another concurrency under the same name',
      { limitBy: 'taken', ratePerSecond: 5, maxConcurrent: 1 },
      'has ratePerSecond 5 at TestHandlers.on_first',
    ],
  ])('%s', async (_what, options, text) => {
    const starting = startInboxApp(database, {
      handlers: {
        first: [{ limitBy: 'taken', ratePerSecond: 5 }, () => undefined],
        second: [options, () => undefined],
      },
    });
    await expect(starting).rejects.toThrow(text);
  });
});
