// The reorder window: messages that overtook each other are handed over by their sequence. The time of a window passes by
// moving the instants of the stored rows back, so nothing waits for it. On the configured server.
import {
  type InboxBatchContext,
  InboxBatchHandler,
  type InboxMessage,
  type ReorderOptions,
} from '../../../src/index.js';
import { drainInbox } from '../../../src/testing/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { type InboxApp, type InboxAppOptions, pushJson, startInboxApp } from '../../support/inbox-app.js';

let database: TestDatabase;
const running: InboxApp[] = [];

beforeAll(async () => {
  database = await migrated(await createTestDatabase('reorder'));
});
afterEach(async () => {
  await Promise.all(running.splice(0).map((app) => app.close()));
  for (const table of ['inbox_message', 'mailroom_sequence', 'mailroom_lease', 'mailroom_instance'])
    await database.query(`DELETE FROM ${table}`);
});
afterAll(() => database.drop());

const reorder: ReorderOptions = { by: 'sequence', types: ['e'], window: '10s' };

async function start(options: InboxAppOptions = {}, window: ReorderOptions | null = reorder): Promise<InboxApp> {
  const app = await startInboxApp(database, {
    ...options,
    source: { sequence: (push) => push.json.seq, ...(window && { reorder: window }), ...options.source },
  });
  running.push(app);
  return app;
}

/** Names are `entity:sequence`, with another type than `e` in front of a slash: `x/a:3`. `a:-` has no sequence. */
async function push(app: InboxApp, ...names: string[]): Promise<string[]> {
  const ids: string[] = [];
  for (const name of names) {
    const [, type = 'e', entity, seq] = /^(?:(\w+)\/)?(\w+):(.+)$/.exec(name) ?? [];
    ids.push(await pushJson(app.inbox, { type, name, entity, seq: seq === '-' ? null : Number(seq) }));
  }
  return ids;
}

/** Lets time pass for everything that is stored. */
const elapse = (seconds: number) =>
  database.query(
    `UPDATE inbox_message SET next_attempt_at = next_attempt_at - INTERVAL ? SECOND, received_at = received_at - INTERVAL ? SECOND
      WHERE status <> 'success'`,
    [seconds, seconds],
  );

type Received = { json: Record<string, unknown> };

/** A handler that notes names, and fails those in `failing` as often as it says. */
function noting(seen: string[], failing: Record<string, number> = {}) {
  return ({ json }: Received) => {
    const name = String(json.name);
    const left = failing[name] ?? 0;
    failing[name] = left - 1;
    seen.push(left > 0 ? `${name}!` : name);
    if (left > 0) throw new Error('not yet');
  };
}

const lateNames = async (app: InboxApp) => {
  const ids = app.events('late').map(({ id }) => id);
  if (ids.length === 0) return [];
  const rows = await database.query<{ body: Buffer }>('SELECT body FROM inbox_message WHERE id IN (?) ORDER BY id', [
    ids,
  ]);
  return rows.map(({ body }) => JSON.parse(body.toString()).name);
};

test('messages that arrive shuffled within the window are handed over by sequence, then arrival', async () => {
  const seen: string[] = [];
  const app = await start({ handlers: { e: noting(seen) } });
  await push(app, 'a:5', 'b:2', 'a:3', 'a:4', 'b:1', 'a:1', 'a:2');
  await drainInbox(app.inbox);
  expect(seen).toEqual([]);
  await elapse(10);
  await drainInbox(app.inbox);
  expect(seen.filter((name) => name.startsWith('a'))).toEqual(['a:1', 'a:2', 'a:3', 'a:4', 'a:5']);
  expect(seen.filter((name) => name.startsWith('b'))).toEqual(['b:1', 'b:2']);
  expect(await lateNames(app)).toEqual([]);
});

test('nobody waits longer than the window: what must come before is handed over with it', async () => {
  const seen: string[] = [];
  const app = await start({ handlers: { e: noting(seen) } });
  await push(app, 'a:5');
  await elapse(8);
  await push(app, 'a:2', 'a:7', 'a:1');
  await elapse(2);
  await drainInbox(app.inbox);
  expect(seen).toEqual(['a:1', 'a:2', 'a:5']);
  await elapse(8);
  await drainInbox(app.inbox);
  expect(seen).toEqual(['a:1', 'a:2', 'a:5', 'a:7']);
});

test('one that comes after its successors is passed on and counted as late, also by another instance after a restart', async () => {
  const seen: string[] = [];
  const first = await start({ handlers: { e: noting(seen) } });
  await push(first, 'a:2', 'b:9');
  await elapse(10);
  await drainInbox(first.inbox);
  await push(first, 'a:1', 'b:10');
  await running.pop()?.close();

  const second = await start({ handlers: { e: noting(seen) } });
  await elapse(10);
  await drainInbox(second.inbox);
  expect(seen).toEqual(['a:2', 'b:9', 'a:1', 'b:10']);
  expect(await lateNames(second)).toEqual(['a:1']);
  expect((await second.inbox.stats()).late).toEqual([{ source: 'test', type: 'e', count: 1 }]);
});

test('a late message that fails at first is counted once, with its outcome', async () => {
  const seen: string[] = [];
  const app = await start({ handlers: { e: noting(seen, { 'a:1': 2 }) } });
  await push(app, 'a:2');
  await elapse(10);
  await drainInbox(app.inbox);
  await push(app, 'a:1');
  await elapse(10);
  await drainInbox(app.inbox);
  expect(seen).toEqual(['a:2', 'a:1!', 'a:1!', 'a:1']);
  expect(await lateNames(app)).toEqual(['a:1']);
});

test('what a transaction of its own wrote is remembered with it, and forgotten when it rolls back', async () => {
  await database.query('CREATE TABLE noted (name VARCHAR(20))');
  let fails = true;
  const app = await start({
    inbox: { backoff: ['1h'] },
    handlers: {
      e: async ({ json }, ctx) => {
        await ctx.manager.query('INSERT INTO noted VALUES (?)', [json.name]);
        if (json.seq === 5 && fails) throw new Error('not yet');
      },
    },
  });
  const [five] = await push(app, 'a:5');
  await elapse(10);
  await drainInbox(app.inbox);
  expect(await database.query('SELECT * FROM mailroom_sequence')).toEqual([]);
  await push(app, 'a:4');
  await elapse(10);
  await drainInbox(app.inbox);
  expect(await lateNames(app)).toEqual([]);
  fails = false;
  await database.query('UPDATE inbox_message SET next_attempt_at = UTC_TIMESTAMP(3) WHERE id = ?', [five]);
  await drainInbox(app.inbox);
  expect((await database.query('SELECT name FROM noted')).map((row) => row.name)).toEqual(['a:4', 'a:5']);
  expect(await database.query('SELECT CAST(sequence AS CHAR) AS last FROM mailroom_sequence')).toEqual([{ last: '5' }]);
});

test('only the types that are named wait and are put in order; others keep their place of arrival', async () => {
  const seen: string[] = [];
  const app = await start({ handlers: { e: noting(seen), x: noting(seen) } });
  await push(app, 'x/b:2', 'x/b:1', 'a:3', 'x/a:0', 'a:1');
  await drainInbox(app.inbox);
  expect(seen).toEqual(['x/b:2', 'x/b:1']);
  await elapse(10);
  await drainInbox(app.inbox);
  expect(seen.slice(2)).toEqual(['a:1', 'a:3', 'x/a:0']);
});

test('a message without a sequence, or without an entity, is due at once and keeps its place', async () => {
  const seen: string[] = [];
  const app = await start({ handlers: { e: noting(seen) } });
  await push(app, 'a:-', 'a:2', 'a:1', 'b:-');
  await pushJson(app.inbox, { type: 'e', name: 'no entity', seq: 7 });
  await drainInbox(app.inbox);
  expect(seen).toEqual(['a:-', 'b:-', 'no entity']);
  await elapse(10);
  await drainInbox(app.inbox);
  expect(seen.slice(3)).toEqual(['a:1', 'a:2']);
});

test("by 'time' a value that is no time in milliseconds is refused, for the types that are named", async () => {
  const app = await start({}, { by: 'time', types: ['e'] });
  const now = Date.UTC(2026, 0);
  await push(app, `a:${now}`, 'a:-', 'x/a:1');
  for (const wrong of [now / 1000, now * 1000, 0, -now]) {
    await expect(push(app, `a:${wrong}`)).rejects.toThrow(/test: sequence must give milliseconds since 1970/);
  }
});

test('a batch handler gets them in order, and what comes late is told of each', async () => {
  const calls: string[][] = [];
  class Batches {
    together(messages: readonly InboxMessage<{ name: string }>[], ctx: InboxBatchContext) {
      calls.push(messages.map(({ json }) => json.name));
      return ctx.manager.query('SELECT 1');
    }
  }
  const descriptor = Object.getOwnPropertyDescriptor(Batches.prototype, 'together') ?? {};
  InboxBatchHandler('e', { source: 'test', size: 10 })(Batches.prototype, 'together', descriptor);
  const app = await start({ providers: [Batches] });
  await push(app, 'a:3', 'b:9', 'a:2', 'b:8');
  await elapse(10);
  await drainInbox(app.inbox);
  const order = calls.flat();
  expect(order.filter((name) => name.startsWith('a'))).toEqual(['a:2', 'a:3']);
  expect(order.filter((name) => name.startsWith('b'))).toEqual(['b:8', 'b:9']);
  await push(app, 'a:1', 'b:10');
  await elapse(10);
  await drainInbox(app.inbox);
  expect(await lateNames(app)).toEqual(['a:1']);
});

test('without the option a sequence changes nothing', async () => {
  const seen: string[] = [];
  const app = await start({ handlers: { e: noting(seen) } }, null);
  await push(app, 'a:3', 'a:1', 'a:2');
  await drainInbox(app.inbox);
  expect(seen).toEqual(['a:3', 'a:1', 'a:2']);
  expect(await database.query('SELECT * FROM mailroom_sequence')).toEqual([]);
  expect((await app.inbox.stats()).late).toEqual([]);
});

test('followers wait for a message that waits for its retry; one that belongs before it does not', async () => {
  const seen: string[] = [];
  const app = await start({ inbox: { backoff: ['1h'] }, handlers: { e: noting(seen, { 'a:5': 1 }), x: noting(seen) } });
  await push(app, 'a:5', 'a:6', 'x/a:9');
  await elapse(10);
  await drainInbox(app.inbox);
  expect(seen).toEqual(['a:5!']);
  await push(app, 'a:4', 'a:7');
  await elapse(10);
  await drainInbox(app.inbox);
  expect(seen).toEqual(['a:5!', 'a:4']);
  await elapse(3_600);
  await drainInbox(app.inbox);
  expect(seen.slice(2, 4)).toEqual(['a:5', 'a:6']);
  expect(seen.slice(4).sort()).toEqual(['a:7', 'x/a:9']);
  expect(await lateNames(app)).toEqual([]);
});
