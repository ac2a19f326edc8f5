// What `runOnce()` has in work when the application closes: it is part of the shutdown like any other message.
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { gate } from '../../support/gate.js';
import { type InboxApp, pushJson, startInboxApp } from '../../support/inbox-app.js';
import { waitUntil } from '../../support/wait-until.js';

let database: TestDatabase;
let running: InboxApp | undefined;

beforeAll(async () => {
  database = await migrated(await createTestDatabase('run_once_at_close'));
});
afterEach(async () => {
  await running?.close();
  for (const table of ['inbox_message', 'mailroom_lease']) await database.query(`DELETE FROM ${table}`);
});
afterAll(() => database.drop());

const message = async (id: string) =>
  (
    await database.query<{ status: string; claim_token: Buffer | null }>(
      'SELECT status, claim_token FROM inbox_message WHERE id = ?',
      [id],
    )
  )[0];

describe.each(['ordered', 'competing'] as const)('in %s mode', (mode) => {
  test('the message in work is finished before the application is closed', async () => {
    const entered = gate();
    const opening = gate();
    const seen: string[] = [];
    let others = 0;
    const app = await startInboxApp(database, {
      inbox: { mode },
      handlers: {
        work: async (_message, ctx) => {
          entered.open();
          await opening.opened;
          await ctx.manager.query('SELECT 1');
          seen.push('handled');
        },
      },
    });
    running = app;
    const id = await pushJson(app.inbox, { type: 'work', id: 'a' });
    const round = app.inbox.runOnce();
    await entered.opened;
    const closed = app.close().then(() => seen.push('closed'));
    const refused = () =>
      pushJson(app.inbox, { type: 'other', id: String(others++) }).then(
        () => false,
        () => true,
      );
    await waitUntil(refused, { what: 'the stop has begun: nothing new is taken in' });
    opening.open();
    await Promise.all([round, closed]);
    expect(seen).toEqual(['handled', 'closed']);
    expect(await message(id)).toEqual({ status: 'success', claim_token: null });
  });

  test('a handler that does not end is given up at the deadline, and its message waits for its retry', async () => {
    const entered = gate();
    const app = await startInboxApp(database, {
      inbox: { mode, shutdown: { deadline: 300, readinessDelay: 0 } },
      handlers: {
        work: (_message, ctx) => {
          entered.open();
          return new Promise((_resolve, reject) =>
            ctx.signal.addEventListener('abort', () => reject(ctx.signal.reason)),
          );
        },
      },
    });
    running = app;
    const id = await pushJson(app.inbox, { type: 'work', id: 'a' });
    const round = app.inbox.runOnce();
    await entered.opened;
    await app.close();
    await round;
    expect(await message(id)).toEqual({ status: 'pending', claim_token: null });
  });
});
