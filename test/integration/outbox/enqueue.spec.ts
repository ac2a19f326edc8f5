// What enqueueing promises to the caller's transaction, whoever opened it: TypeORM itself, a query runner, savepoints,
// @nestjs-cls/transactional and typeorm-transactional. What is sent is asserted by the rows of the table.
import type { EntityManager } from 'typeorm';
import {
  addTransactionalDataSource,
  deleteDataSourceByName,
  initializeTransactionalContext,
  Propagation,
  runInTransaction,
  StorageDriver,
} from 'typeorm-transactional';
import { type OutgoingMessage, TransactionRequiredError } from '../../../src/index.js';
import { startChild } from '../../support/child.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { deadlockTables, loseDeadlock } from '../../support/lose-deadlock.js';
import { type OutboxApp, startOutboxApp } from '../../support/outbox-app.js';

let database: TestDatabase;
let app: OutboxApp;

beforeAll(async () => {
  database = await migrated(await createTestDatabase('enqueue'));
  for (const sql of deadlockTables) await database.query(sql);
  await database.query('CREATE TABLE business (id INT PRIMARY KEY, note VARCHAR(64) NOT NULL) ENGINE=InnoDB');
  app = await startOutboxApp(database);
});
afterEach(async () => {
  for (const table of ['outbox_message', 'business', 'mailroom_order_key', 'contended'])
    await database.query(`DELETE FROM ${table}`);
});
afterAll(async () => {
  await app.close();
  await database.drop();
});

const hello = (payload: unknown = 1): OutgoingMessage => ({ topic: 't', payload });
const enqueue = (manager: EntityManager, payload: unknown = 1) => app.outbox.enqueue(manager, hello(payload));
const payloads = async () =>
  (await database.query<{ payload: Buffer }>('SELECT payload FROM outbox_message ORDER BY id')).map(({ payload }) =>
    JSON.parse(payload.toString()),
  );
const changedMyMind = () => Promise.reject(new Error('changed my mind'));

describe('only in an open transaction', () => {
  test('a manager without one is refused, and nothing is stored', async () => {
    await expect(enqueue(app.dataSource.manager)).rejects.toThrow(TransactionRequiredError);
    await expect(app.outbox.enqueue(app.dataSource.manager, [])).rejects.toThrow(TransactionRequiredError);
    expect(await payloads()).toEqual([]);
  });

  test('a query runner before, after and beyond its transaction is refused', async () => {
    const runner = app.dataSource.createQueryRunner();
    await expect(enqueue(runner.manager)).rejects.toThrow(TransactionRequiredError);
    await runner.startTransaction();
    await enqueue(runner.manager, 'in it');
    await runner.commitTransaction();
    await expect(enqueue(runner.manager)).rejects.toThrow(TransactionRequiredError);
    await runner.release();
    await expect(enqueue(runner.manager)).rejects.toThrow(TransactionRequiredError);
    expect(await payloads()).toEqual(['in it']);
  });

  test('what is no manager at all is refused with the same words', async () => {
    await expect(app.outbox.enqueue(undefined as never, hello())).rejects.toThrow(TransactionRequiredError);
    await expect(app.outbox.enqueue({} as never, hello())).rejects.toThrow(TransactionRequiredError);
  });
});

describe('stored if and only if the transaction commits', () => {
  test('dataSource.transaction', async () => {
    await app.dataSource.transaction((manager) => enqueue(manager, 'kept'));
    await expect(
      app.dataSource.transaction(async (manager) => {
        await enqueue(manager, 'gone');
        await changedMyMind();
      }),
    ).rejects.toThrow('changed my mind');
    expect(await payloads()).toEqual(['kept']);
  });

  test('a query runner of the caller', async () => {
    const runner = app.dataSource.createQueryRunner();
    try {
      await runner.startTransaction();
      await enqueue(runner.manager, 'gone');
      await runner.rollbackTransaction();
      await runner.startTransaction('READ COMMITTED');
      await enqueue(runner.manager, 'kept');
      await runner.commitTransaction();
    } finally {
      await runner.release();
    }
    expect(await payloads()).toEqual(['kept']);
  });

  test('a savepoint that is rolled back takes what was enqueued in it, and nothing else', async () => {
    await app.dataSource.transaction(async (manager) => {
      await enqueue(manager, 'A');
      await manager
        .transaction(async (inner) => {
          await enqueue(inner, 'B');
          await inner.transaction((innermost) => enqueue(innermost, 'C'));
          await changedMyMind();
        })
        .catch(() => undefined);
      await manager.transaction((inner) => enqueue(inner, 'D'));
      await enqueue(manager, 'E');
    });
    expect(await payloads()).toEqual(['A', 'D', 'E']);
  });

  test('@nestjs-cls/transactional with its TypeORM adapter', async () => {
    // In a process of its own: jest on Node.js 20 cannot load a CommonJS package that requires Nest 12.
    const child = startChild(new URL('../../support/fixtures/cls-transaction.ts', import.meta.url), {
      env: { DATABASE_URL: database.url },
    });
    expect((await child.ended).code).toBe(0);
    expect(child.stdout.split('\n').slice(0, 2)).toEqual(['changed my mind', 'TransactionRequiredError']);
    expect(await payloads()).toEqual(['kept', 'nested']);
    expect(await database.query('SELECT note FROM business ORDER BY note')).toHaveLength(2);
  });

  test('typeorm-transactional, joined, nested and apart', async () => {
    const patched = await startOutboxApp(database);
    initializeTransactionalContext({ storageDriver: StorageDriver.ASYNC_LOCAL_STORAGE });
    const { dataSource, outbox } = patched;
    const connectionName = 'enqueue';
    addTransactionalDataSource({ name: connectionName, dataSource });
    const inside = <T>(work: () => Promise<T>, propagation = Propagation.REQUIRED) =>
      runInTransaction(work, { connectionName, propagation });
    // As services do it: the DataSource's own manager, which is the transaction's where there is one.
    const pay = async (note: string) => {
      await dataSource.query('INSERT INTO business (id, note) VALUES (?, ?)', [note.length, note]);
      await outbox.enqueue(dataSource.manager, hello(note));
    };
    const payThenFail = (note: string) => pay(note).then(changedMyMind);
    try {
      await expect(inside(() => payThenFail('gone'))).rejects.toThrow('changed my mind');
      await inside(async () => {
        await pay('kept');
        await inside(() => pay('joined'));
        await inside(() => pay('apart'), Propagation.REQUIRES_NEW);
        await inside(() => payThenFail('not apart'), Propagation.REQUIRES_NEW).catch(() => undefined);
      });
      await expect(outbox.enqueue(dataSource.manager, hello())).rejects.toThrow(TransactionRequiredError);
      expect((await payloads()).sort()).toEqual(['apart', 'joined', 'kept']);
      expect(await database.query('SELECT note FROM business ORDER BY note')).toHaveLength(3);
    } finally {
      deleteDataSourceByName(connectionName);
      await patched.close();
    }
  });
});

describe('after the transaction is lost', () => {
  const swallow = (manager: EntityManager) =>
    expect(loseDeadlock(app.dataSource, manager, { first: 1, second: 2 })).rejects.toMatchObject({ errno: 1213 });

  test('a deadlock that was swallowed: refused before anything is sent, so that no relay can be quicker', async () => {
    const statements: string[] = [];
    await expect(
      app.dataSource.transaction(async (manager) => {
        await swallow(manager);
        const { queryRunner } = manager;
        const query = queryRunner?.query.bind(queryRunner);
        if (queryRunner && query)
          queryRunner.query = ((sql: string, ...rest: []) => {
            statements.push(sql);
            return query(sql, ...rest);
          }) as typeof query;
        await enqueue(manager, 'lost');
      }),
    ).rejects.toThrow(TransactionRequiredError);
    expect(statements.filter((sql) => sql.includes('outbox_message'))).toEqual([]);
    expect(await payloads()).toEqual([]);
  });

  test('a deadlock inside a savepoint is one of the whole transaction', async () => {
    await expect(
      app.dataSource.transaction(async (manager) => {
        await manager.transaction((inner) => swallow(inner)).catch(() => undefined);
        await enqueue(manager, 'lost');
      }),
    ).rejects.toThrow(TransactionRequiredError);
    expect(await payloads()).toEqual([]);
  });

  test('a runner can enqueue again in its next transaction', async () => {
    const runner = app.dataSource.createQueryRunner();
    try {
      await runner.startTransaction();
      await swallow(runner.manager);
      await expect(enqueue(runner.manager)).rejects.toThrow(TransactionRequiredError);
      await runner.rollbackTransaction();
      await runner.startTransaction();
      await enqueue(runner.manager, 'kept');
      await runner.commitTransaction();
    } finally {
      await runner.release();
    }
    expect(await payloads()).toEqual(['kept']);
  });

  test.each([
    ['one statement', 1],
    ['several statements', 450],
  ])('DDL that committed it: what was stored by %s is taken back', async (_what, count) => {
    await expect(
      app.dataSource.transaction(async (manager) => {
        await manager.query('CREATE TABLE IF NOT EXISTS side_effect (id INT)');
        await app.outbox.enqueue(
          manager,
          Array.from({ length: count }, (_, n) => hello(n)),
        );
      }),
    ).rejects.toThrow(TransactionRequiredError);
    expect(await payloads()).toEqual([]);
  });
});

describe('parallel queries in one transaction', () => {
  const failing = (manager: EntityManager) => manager.query('SELECT no_such_column FROM business');
  const slow = (manager: EntityManager) =>
    manager.query("INSERT INTO business (id, note) SELECT 1, 'slow' FROM (SELECT SLEEP(0.01)) nap");
  const many = Array.from({ length: 450 }, (_, n) => hello(n));
  /** All of them have settled: what is late came before this. */
  async function settled(work: readonly Promise<unknown>[]): Promise<void> {
    await Promise.allSettled(work);
  }

  test.each<[string, (manager: EntityManager) => Promise<unknown>[]]>([
    ['enqueue, failure, slow insert', (manager) => [enqueue(manager), failing(manager), slow(manager)]],
    ['failure, enqueue, slow insert', (manager) => [failing(manager), enqueue(manager), slow(manager)]],
    [
      'failure, enqueue of several statements',
      (manager) => [failing(manager), app.outbox.enqueue(manager, many), slow(manager)],
    ],
    [
      'failure, enqueue with strictOrder',
      (manager) => [failing(manager), app.outbox.enqueue(manager, { ...hello(), key: 'k', strictOrder: true })],
    ],
  ])('%s: 100 times, and no row is ever there', async (_what, parts) => {
    for (let time = 0; time < 100; time++) {
      const work: Promise<unknown>[] = [];
      await expect(
        app.dataSource.transaction((manager) => {
          work.push(...parts(manager));
          return Promise.all(work);
        }),
      ).rejects.toThrow('no_such_column');
      await settled(work);
    }
    expect(await payloads()).toEqual([]);
    expect(await database.query('SELECT * FROM business')).toEqual([]);
  });

  test('what comes while the savepoint around it is rolled back is refused, and the rest of the transaction goes on', async () => {
    const late: Promise<unknown>[] = [];
    await app.dataSource.transaction(async (manager) => {
      await manager
        .transaction((inner) => {
          const work = [failing(inner), app.outbox.enqueue(inner, many)];
          late.push(...work);
          return Promise.all(work);
        })
        .catch(() => undefined);
      await settled(late);
      await enqueue(manager, 'kept');
    });
    await expect(late[1]).rejects.toThrow(TransactionRequiredError);
    expect(await payloads()).toEqual(['kept']);
  });

  test('what nobody waited for is not sent any more once the COMMIT is on its way', async () => {
    const late: Promise<unknown>[] = [];
    await app.dataSource.transaction(async (manager) => {
      late.push(app.outbox.enqueue(manager, many));
    });
    await expect(late[0]).rejects.toThrow('it is ending');
    // The first statement went before the COMMIT, and belongs to the transaction.
    expect(await payloads()).toHaveLength(200);
  });
});
