// Compensation: a push is handled now, in its handler's transaction, and no row is stored. The lane is held meanwhile.
import { ConflictError, type ExecuteOptions, HandlerTimeoutError, IntakeRefusedError } from '../../../src/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { gate } from '../../support/gate.js';
import {
  type InboxApp,
  type InboxAppOptions,
  pushJson,
  startInboxApp,
  type TestHandler,
} from '../../support/inbox-app.js';

let database: TestDatabase;
const running: InboxApp[] = [];

beforeAll(async () => {
  database = await migrated(await createTestDatabase('execute'));
  await database.query('CREATE TABLE effect (id INT AUTO_INCREMENT PRIMARY KEY, note VARCHAR(200))');
});
afterEach(async () => {
  for (const app of running.splice(0)) await app.close();
  for (const table of ['inbox_message', 'effect', 'mailroom_lease']) await database.query(`DELETE FROM ${table}`);
});
afterAll(() => database.drop());

const write: TestHandler = async (message, ctx) =>
  void (await ctx.manager.query('INSERT INTO effect (note) VALUES (?)', [`${message.id} ${message.json.id ?? ''}`]));

async function start(options: InboxAppOptions): Promise<InboxApp> {
  const app = await startInboxApp(database, { ...options, inbox: { enabled: false, ...options.inbox } });
  running.push(app);
  return app;
}

const execute = (app: InboxApp, body: object, options?: ExecuteOptions) =>
  app.inbox.execute('test', { rawBody: JSON.stringify(body) }, options);
const effects = async () =>
  (await database.query<{ note: string }>('SELECT note FROM effect ORDER BY id')).map((row) => row.note);
const leases = () =>
  database.query<{ owner: string | null; fence: number }>('SELECT owner, fence FROM mailroom_lease ORDER BY name');
const rows = async () => (await database.query('SELECT id FROM inbox_message')).length;

test('an executed push is committed when the call resolves, and leaves no row and no held lane', async () => {
  const app = await start({ handlers: { work: write } });
  expect(await execute(app, { type: 'work', id: 'a' })).toEqual({ status: 'executed', messages: 1 });
  expect(await effects()).toEqual(['0 a']);
  expect(await rows()).toBe(0);
  expect(await leases()).toEqual([{ owner: null, fence: 1 }]);
});

test('an error of the handler is thrown to the caller as it is, and nothing is committed', async () => {
  const refusal = new Error('no');
  const app = await start({
    handlers: {
      work: async (message, ctx) => {
        await write(message, ctx);
        throw refusal;
      },
    },
  });
  await expect(execute(app, { type: 'work' })).rejects.toBe(refusal);
  expect(await effects()).toEqual([]);
  expect(await leases()).toEqual([{ owner: null, fence: 1 }]);
});

test('a handler that runs out of time is given up, and what it writes late reaches nothing', async () => {
  const opening = gate();
  const late = gate();
  const app = await start({
    handlers: {
      work: [
        { timeout: 100 },
        async (message, ctx) => {
          await write(message, ctx);
          await opening.opened;
          await Promise.resolve(write(message, ctx)).catch(() => undefined);
          late.open();
        },
      ],
    },
  });
  await expect(execute(app, { type: 'work' })).rejects.toThrow(HandlerTimeoutError);
  opening.open();
  await late.opened;
  expect(await effects()).toEqual([]);
});

test('what the source does not accept is ignored, what it cannot read is refused', async () => {
  const app = await start({ handlers: { work: write }, source: { accept: (push) => push.json.type === 'work' } });
  expect(await execute(app, { type: 'other' })).toEqual({ status: 'ignored', messages: 0 });
  await expect(app.inbox.execute('test', { rawBody: '{' })).rejects.toThrow(IntakeRefusedError);
  await expect(app.inbox.execute('nobody', { rawBody: '{}' })).rejects.toMatchObject({ statusCode: 404 });
});

test('while another instance holds the lane it waits, then says 409 and leaves the holder alone', async () => {
  const app = await start({ handlers: { work: write } });
  await database.query(
    "INSERT INTO mailroom_lease (name, owner, fence, held_until) VALUES ('inbox:lane:0', 'other', 7, UTC_TIMESTAMP(3) + INTERVAL 1 HOUR)",
  );
  const refused = await execute(app, { type: 'work' }).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(ConflictError);
  expect(refused).toMatchObject({ code: 'MAILROOM_CONFLICT', statusCode: 409 });
  expect(await leases()).toEqual([{ owner: 'other', fence: 7 }]);
  expect(await effects()).toEqual([]);
  await execute(app, { type: 'work', id: 'beside' }, { serialize: false });
  expect(await effects()).toEqual(['0 beside']);
});

test("this instance's own consumer is waited for like any other, and keeps its lane", async () => {
  const entered = gate();
  const opening = gate();
  const app = await start({
    handlers: {
      slow: async (message, ctx) => {
        entered.open();
        await opening.opened;
        await write(message, ctx);
      },
      work: write,
    },
  });
  const id = await pushJson(app.inbox, { type: 'slow', id: 'stored' });
  const round = app.inbox.runOnce();
  await entered.opened;
  const executed = execute(app, { type: 'work', id: 'executed' });
  opening.open();
  await Promise.all([round, executed]);
  expect(await effects()).toEqual([`${id} stored`, '0 executed']);
});

test('a consumer gets no turn in the lane while a push is executed there', async () => {
  const entered = gate();
  const opening = gate();
  const app = await start({
    handlers: {
      slow: async (message, ctx) => {
        entered.open();
        await opening.opened;
        await write(message, ctx);
      },
      work: write,
    },
  });
  await pushJson(app.inbox, { type: 'work', id: 'stored' });
  const executed = execute(app, { type: 'slow', id: 'executed' });
  await entered.opened;
  expect(await app.inbox.runOnce()).toEqual(['unavailable']);
  opening.open();
  await executed;
  expect(await effects()).toEqual(['0 executed']);
});

test('an execution that was replaced in its lane commits nothing', async () => {
  const app = await start({
    handlers: {
      work: async (message, ctx) => {
        await write(message, ctx);
        await database.query("UPDATE mailroom_lease SET fence = fence + 1, owner = 'other'");
      },
    },
  });
  await expect(execute(app, { type: 'work' })).rejects.toThrow(ConflictError);
  expect(await effects()).toEqual([]);
});
