// The handler's transaction: never a success without its writes, never a late write, never somebody else's transaction.
import { createConnection } from 'mysql2/promise';
import { Column, DataSource, Entity, PrimaryColumn } from 'typeorm';
import { TransactionDoomedError } from '../../../src/index.js';
import { drainInbox } from '../../../src/testing/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { gate } from '../../support/gate.js';
import { type InboxApp, type InboxAppOptions, pushJson, startInboxApp } from '../../support/inbox-app.js';
import { waitUntil } from '../../support/wait-until.js';

@Entity('thing')
class Thing {
  @PrimaryColumn('int') declare id: number;
  @Column('int') declare n: number;
}

let database: TestDatabase;
let running: InboxApp | undefined;

beforeAll(async () => {
  database = await migrated(await createTestDatabase('transaction'));
  await database.query('CREATE TABLE thing (id INT PRIMARY KEY, n INT NOT NULL)');
});
beforeEach(async () => {
  await database.query('DELETE FROM thing');
  await database.query('INSERT INTO thing VALUES (1, 0), (2, 0)');
  await database.query('DELETE FROM inbox_message');
});
afterEach(async () => {
  await running?.close();
  running = undefined;
});
afterAll(() => database.drop());

async function start(options: InboxAppOptions): Promise<InboxApp> {
  running = await startInboxApp(database, { ...options, dataSource: { entities: [Thing], ...options.dataSource } });
  return running;
}
const things = async () =>
  Object.fromEntries((await database.query<Thing>('SELECT id, n FROM thing')).map((row) => [row.id, row.n]));
const status = async (id: string) =>
  (await database.query<{ status: string }>('SELECT status FROM inbox_message WHERE id = ?', [id]))[0]?.status;

test('repositories, query builders, nested transactions and parallel statements all join the transaction', async () => {
  const { inbox } = await start({
    inbox: { maxRetry: 0 },
    handlers: {
      good: async (_message, ctx) => {
        await ctx.manager.save(Thing, { id: 10, n: 10 });
        await ctx.manager.transaction(async (nested) => void (await nested.increment(Thing, { id: 10 }, 'n', 5)));
        await ctx.manager
          .transaction(async (nested) => {
            await nested.increment(Thing, { id: 10 }, 'n', 1_000);
            throw new Error('only this part');
          })
          .catch(() => undefined);
        await Promise.all(
          [11, 12, 13].map((id) =>
            ctx.manager.createQueryBuilder().insert().into(Thing).values({ id, n: id }).execute(),
          ),
        );
      },
      bad: async (_message, ctx) => {
        await Promise.all([
          ctx.manager.save(Thing, { id: 20, n: 20 }),
          ctx.manager.transaction((nested) => nested.save(Thing, { id: 21, n: 21 })),
        ]);
        throw new Error('no');
      },
    },
  });
  await pushJson(inbox, { type: 'good' });
  await pushJson(inbox, { type: 'bad' });
  await drainInbox(inbox);
  expect(await things()).toEqual({ 1: 0, 2: 0, 10: 15, 11: 11, 12: 12, 13: 13 });
});

test('a handler that swallows a deadlock and goes on does not succeed without its writes', async () => {
  const locked = gate();
  const { inbox } = await start({
    handlers: {
      clash: async (_message, ctx) => {
        if (ctx.attempt > 1) return void (await ctx.manager.query('UPDATE thing SET n = n + 1 WHERE id IN (1, 2)'));
        await ctx.manager.query('UPDATE thing SET n = n + 1 WHERE id = 1');
        locked.open();
        await ctx.manager.query('UPDATE thing SET n = n + 1 WHERE id = 2').catch(() => undefined);
        await ctx.manager.query('UPDATE thing SET n = 100 WHERE id = 1').catch(() => undefined);
      },
    },
  });
  const rival = await createConnection(database.url);
  try {
    await rival.query('CREATE TABLE IF NOT EXISTS heavy (id INT AUTO_INCREMENT PRIMARY KEY, x INT)');
    const id = await pushJson(inbox, { type: 'clash' });
    await rival.query('START TRANSACTION');
    // The server rolls back whoever changed less: the rival is made the heavier one.
    await rival.query(`INSERT INTO heavy (x) VALUES ${Array.from({ length: 500 }, (_, n) => `(${n})`).join(',')}`);
    await rival.query('UPDATE thing SET n = n + 10 WHERE id = 2');
    const draining = drainInbox(inbox);
    await locked.opened;
    await rival.query('UPDATE thing SET n = n + 10 WHERE id = 1');
    await rival.query('COMMIT');
    await draining;
    expect(await status(id)).toBe('success');
    expect(await things()).toEqual({ 1: 11, 2: 11 });
  } finally {
    await rival.end();
    await database.query('DROP TABLE heavy');
  }
});

test('a handler that runs DDL, which commits what came before, is not marked as success', async () => {
  const { inbox } = await start({
    inbox: { maxRetry: 0 },
    handlers: {
      ddl: async (_message, ctx) => {
        await ctx.manager.query('UPDATE thing SET n = n + 1 WHERE id = 1');
        await ctx.manager.query('CREATE TABLE IF NOT EXISTS by_handler (id INT)');
        await ctx.manager.query('UPDATE thing SET n = n + 1 WHERE id = 2');
      },
    },
  });
  const id = await pushJson(inbox, { type: 'ddl' });
  await drainInbox(inbox);
  expect(await status(id)).toBe('failed');
  await database.query('DROP TABLE by_handler');
});

test.each(['COMMIT', 'ROLLBACK', 'START TRANSACTION'])(
  'a handler that sends %s by hand never ends as success without its writes',
  async (sql) => {
    const { inbox } = await start({
      inbox: { maxRetry: 0 },
      handlers: {
        own: async (_message, ctx) => {
          await ctx.manager.query('UPDATE thing SET n = n + 1 WHERE id = 1');
          await ctx.manager.query(sql);
        },
      },
    });
    const id = await pushJson(inbox, { type: 'own' });
    await drainInbox(inbox);
    if ((await status(id)) === 'success') expect((await things())[1]).toBe(1);
  },
);

test('the message of a handler is its own to end: commit, rollback and release through the manager are refused', async () => {
  const refused: unknown[] = [];
  const { inbox } = await start({
    inbox: { maxRetry: 0 },
    handlers: {
      greedy: async (_message, ctx) => {
        await ctx.manager.query('UPDATE thing SET n = n + 1 WHERE id = 1');
        const runner = ctx.manager.queryRunner;
        for (const end of ['commitTransaction', 'rollbackTransaction', 'release'] as const)
          await runner?.[end]().catch((error) => refused.push(error));
      },
    },
  });
  const id = await pushJson(inbox, { type: 'greedy' });
  await drainInbox(inbox);
  expect(refused).toHaveLength(3);
  for (const error of refused) expect(error).toBeInstanceOf(TransactionDoomedError);
  expect(await status(id)).toBe('success');
  expect(await things()).toMatchObject({ 1: 1 });
});

test('a handler that writes on after its timeout writes nothing, also through a nested transaction', async () => {
  const late = gate();
  const outcomes: unknown[] = [];
  const { inbox, events } = await start({
    inbox: { handlerTimeout: 80, maxRetry: 0 },
    handlers: {
      slow: async (_message, ctx) => {
        await ctx.manager.query('UPDATE thing SET n = n + 1 WHERE id = 1');
        await late.opened;
        outcomes.push(await ctx.manager.query('UPDATE thing SET n = n + 1 WHERE id = 2').catch((error) => error));
        outcomes.push(
          await ctx.manager.transaction((nested) => nested.save(Thing, { id: 30, n: 1 })).catch((error) => error),
        );
        outcomes.push(await ctx.manager.save(Thing, { id: 31, n: 1 }).catch((error) => error));
      },
    },
  });
  const id = await pushJson(inbox, { type: 'slow' });
  await inbox.runOnce();
  // Until the handler settles its message stays claimed, so that no retry runs beside it.
  expect(await status(id)).toBe('processing');
  late.open();
  await waitUntil(async () => (await status(id)) === 'failed', { what: 'the late handler has settled' });
  expect(outcomes).toHaveLength(3);
  for (const outcome of outcomes) expect(outcome).toBeInstanceOf(TransactionDoomedError);
  expect(await things()).toEqual({ 1: 0, 2: 0 });
  // Told after it was written.
  await waitUntil(() => events('failed').length > 0, { what: 'the failure is told' });
  expect(events('failed')).toMatchObject([{ id, errorKind: 'timeout' }]);
});

test('a handler that times out in the middle of a statement is left behind, and its row locks end', async () => {
  const { inbox } = await start({
    inbox: { handlerTimeout: 100, maxRetry: 0 },
    handlers: {
      stuck: async (_message, ctx) => {
        await ctx.manager.query('UPDATE thing SET n = n + 1 WHERE id = 1');
        await ctx.manager.query('SELECT SLEEP(1)');
        await ctx.manager.query('UPDATE thing SET n = n + 1 WHERE id = 2');
      },
      next: () => undefined,
    },
  });
  const stuck = await pushJson(inbox, { type: 'stuck' });
  const next = await pushJson(inbox, { type: 'next' });
  await drainInbox(inbox);
  expect(await status(next)).toBe('success');
  await waitUntil(async () => (await status(stuck)) === 'failed', { what: 'the stuck handler was written off' });
  await waitUntil(async () => database.query('UPDATE thing SET n = 7 WHERE id = 1').then(() => true), {
    what: 'the row lock is gone',
  });
  expect(await things()).toEqual({ 1: 7, 2: 0 });
});

test('a handler whose connection was killed is tried again', async () => {
  const { inbox } = await start({
    handlers: {
      killed: async (_message, ctx) => {
        await ctx.manager.query('UPDATE thing SET n = n + 1 WHERE id = 1');
        if (ctx.attempt > 1) return;
        const [row] = (await ctx.manager.query('SELECT CONNECTION_ID() AS id')) as { id: number }[];
        await database.query('KILL ?', [row?.id]);
      },
    },
  });
  const id = await pushJson(inbox, { type: 'killed' });
  await drainInbox(inbox);
  expect(await status(id)).toBe('success');
  expect(await things()).toEqual({ 1: 1, 2: 0 });
});

test('a connection that came back to the pool with an open transaction is neither used nor committed', async () => {
  const { inbox, dataSource } = await start({
    dataSource: { poolSize: 1 },
    handlers: {
      clean: async (_message, ctx) => void (await ctx.manager.query('UPDATE thing SET n = n + 1 WHERE id = 2')),
    },
  });
  const leaked = dataSource.createQueryRunner();
  await leaked.query('START TRANSACTION');
  await leaked.query('UPDATE thing SET n = 99 WHERE id = 1');
  await leaked.release();
  const id = await pushJson(inbox, { type: 'clean' });
  await drainInbox(inbox);
  expect(await status(id)).toBe('success');
  expect(await things()).toEqual({ 1: 0, 2: 1 });
});

test('the application gets its connection back as it was', async () => {
  const { inbox, dataSource } = await start({
    dataSource: { poolSize: 1 },
    handlers: { w: async (_message, ctx) => void (await ctx.manager.query('UPDATE thing SET n = n + 1 WHERE id = 1')) },
  });
  const isolation = database.flavour === 'mariadb' ? '@@tx_isolation' : '@@transaction_isolation';
  const settings = () =>
    dataSource.query(`SELECT ${isolation} AS isolation, @@wait_timeout AS wait, CONNECTION_ID() AS id`);
  const before = await settings();
  await pushJson(inbox, { type: 'w' });
  await drainInbox(inbox);
  expect(await settings()).toEqual(before);
});

test('a leaked statement of a handler that already returned reaches no other message', async () => {
  const late = gate();
  let outcome: unknown;
  const { inbox } = await start({
    handlers: {
      first: (_message, ctx) => {
        void late.opened
          .then(() => ctx.manager.query('UPDATE thing SET n = 50 WHERE id = 1'))
          .catch((error) => (outcome = error));
        return ctx.manager.query('UPDATE thing SET n = n + 1 WHERE id = 1');
      },
      second: async (_message, ctx) => {
        await ctx.manager.query('UPDATE thing SET n = n + 1 WHERE id = 2');
        late.open();
        await waitUntil(() => outcome !== undefined, { what: 'the leaked statement was refused' });
      },
    },
  });
  await pushJson(inbox, { type: 'first' });
  await pushJson(inbox, { type: 'second' });
  await drainInbox(inbox);
  expect(outcome).toBeInstanceOf(TransactionDoomedError);
  expect(await things()).toEqual({ 1: 1, 2: 1 });
});

test('a subscriber of the application that throws after the commit does not undo the success', async () => {
  const { inbox, dataSource } = await start({
    handlers: { w: async (_message, ctx) => void (await ctx.manager.query('UPDATE thing SET n = n + 1 WHERE id = 1')) },
  });
  (dataSource as DataSource).subscribers.push({ afterTransactionCommit: () => Promise.reject(new Error('foreign')) });
  const id = await pushJson(inbox, { type: 'w' });
  await drainInbox(inbox);
  expect(await status(id)).toBe('success');
  expect(await things()).toEqual({ 1: 1, 2: 0 });
});

test('a row of messages opens each transaction with the commit before it, and each stands or falls by itself', async () => {
  const sent: string[] = [];
  const { inbox } = await start({
    inbox: { maxRetry: 0 },
    handlers: {
      add: async ({ json }, ctx) => {
        await ctx.manager.query('UPDATE thing SET n = n + ? WHERE id = 1', [json.n]);
        if (json.n === 10) throw new Error('no');
      },
    },
    dataSource: {
      logging: true,
      logger: {
        logQuery: (sql: string) => void sent.push(sql),
        logQueryError: () => undefined,
        logQuerySlow: () => undefined,
        logSchemaBuild: () => undefined,
        logMigration: () => undefined,
        log: () => undefined,
      },
    },
  });
  for (const n of [1, 10, 100, 1_000]) await pushJson(inbox, { type: 'add', n });
  sent.length = 0;
  await drainInbox(inbox);
  expect(await things()).toEqual({ 1: 1_101, 2: 0 });
  // The one that failed is followed by one that is claimed by itself.
  expect(sent.filter((sql) => /^(START|COMMIT|ROLLBACK)/.test(sql))).toEqual([
    'START TRANSACTION',
    'COMMIT AND CHAIN',
    'ROLLBACK',
    'START TRANSACTION',
    'COMMIT AND CHAIN',
    'COMMIT',
  ]);
});

test('a transaction that was opened for a message that wrote nothing does not go back to the application', async () => {
  const { inbox, dataSource } = await start({
    dataSource: { poolSize: 1 },
    handlers: {
      writes: async (_message, ctx) => void (await ctx.manager.query('UPDATE thing SET n = n + 1 WHERE id = 1')),
      nothing: () => undefined,
    },
  });
  await pushJson(inbox, { type: 'writes' });
  await pushJson(inbox, { type: 'nothing' });
  await drainInbox(inbox);
  await dataSource.query('UPDATE thing SET n = 5 WHERE id = 2');
  expect(await things()).toEqual({ 1: 1, 2: 5 });
});
