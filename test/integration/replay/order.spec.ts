// The order in which a run's messages are handled again: within an entity always, for those without one when asked.
import { PermanentFailureError, ReplayModule, type ReplayRequest, ReplayService } from '../../../src/index.js';
import { drainInbox } from '../../../src/testing/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { type InboxApp, pushJson, startInboxApp } from '../../support/inbox-app.js';
import { waitUntil } from '../../support/wait-until.js';

let database: TestDatabase;
let app: InboxApp;
let phase: 'broken' | 'shaky' = 'broken';
let handled: number[] = [];
const tried = new Set<unknown>();

beforeAll(async () => {
  database = await migrated(await createTestDatabase('replay_order'));
});
beforeEach(() => {
  phase = 'broken';
  handled = [];
  tried.clear();
});
afterEach(async () => {
  await app.close();
  for (const table of ['inbox_message', 'inbox_message_archive', 'replay_run', 'replay_item'])
    await database.query(`DELETE FROM ${table}`);
});
afterAll(() => database.drop());

/** Fails for good at first; mended, every third message fails once and comes back a little later. */
async function start(): Promise<ReplayService> {
  app = await startInboxApp(database, {
    inbox: { backoff: [100] },
    handlers: {
      work({ json: { n } }) {
        if (phase === 'broken') throw new PermanentFailureError('broken', { kind: 'broken' });
        if (Number(n) % 3 === 0 && !tried.has(n)) {
          tried.add(n);
          throw new Error('once more');
        }
        handled.push(Number(n));
      },
    },
    imports: [ReplayModule.forRoot({ pollInterval: 50 })],
  });
  return app.app.get(ReplayService);
}

async function replayed(replay: ReplayService, count: number, options: Partial<ReplayRequest>, entity?: string) {
  for (let n = 0; n < count; n++) await pushJson(app.inbox, { type: 'work', n, ...(entity ? { entity } : {}) });
  await drainInbox(app.inbox);
  phase = 'shaky';
  const run = await replay.start({ type: 'work' }, { actor: 'a', reason: 'r', ratePerSecond: 10_000, ...options });
  await waitUntil(async () => (await replay.get(run.id))?.state === 'done', { what: 'the run ends' });
  await waitUntil(
    async () => {
      await drainInbox(app.inbox);
      return handled.length === count;
    },
    { what: 'all are handled' },
  );
  return handled;
}

const inOrder = (count: number) => Array.from({ length: count }, (_, n) => n);

test('with keepOrder messages without an entity wait for the retries of the one before', async () => {
  expect(await replayed(await start(), 7, { keepOrder: true })).toEqual(inOrder(7));
  expect(await database.query('SELECT id FROM inbox_message WHERE open_entity IS NOT NULL')).toEqual([]);
});

test('without keepOrder they do not wait', async () => {
  const order = await replayed(await start(), 7, {});
  expect(order).not.toEqual(inOrder(7));
  expect([...order].sort()).toEqual(inOrder(7));
});

test('within an entity the order is kept either way', async () => {
  expect(await replayed(await start(), 7, {}, 'e')).toEqual(inOrder(7));
});

test.each(['edit', 'discard'] as const)(
  'what waited behind a message that parks its entity goes on after its %s',
  async (action) => {
    app = await startInboxApp(database, {
      inbox: { enabled: true, roundInterval: 50, recoveryInterval: 100 },
      source: { onFailure: 'park' },
      handlers: {
        work({ json: { n } }) {
          if (n === 0) throw new PermanentFailureError('broken', { kind: 'broken' });
          handled.push(Number(n));
        },
      },
      imports: [ReplayModule.forRoot({ pollInterval: 50, edit: true })],
    });
    const first = await pushJson(app.inbox, { type: 'work', n: 0, entity: 'e' });
    await waitUntil(async () => app.events('failed').length === 1, { what: 'the first one fails' });
    await pushJson(app.inbox, { type: 'work', n: 1, entity: 'e' });
    const replay = app.app.get(ReplayService);
    const audit = { actor: 'a', reason: 'r' };
    if (action === 'discard') await replay.discard({ ids: [first] }, { ...audit, ratePerSecond: 100 });
    else await replay.edit(first, { ...audit, body: '{"type":"work","n":2}' });
    const expected = action === 'discard' ? [1] : [1, 2];
    await waitUntil(() => handled.length === expected.length, { what: 'the others are handled' });
    expect(handled).toEqual(expected);
  },
);
