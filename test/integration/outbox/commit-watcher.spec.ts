// When a commit is told: the outermost one only, of what enqueued something, and nothing of it can hurt the request.
import { DataSource, type EntityManager, type EntitySubscriberInterface } from 'typeorm';
import { ControlPool } from '../../../src/database/index.js';
import { CommitWatcher } from '../../../src/outbox/commit-watcher.js';
import { insertMessages } from '../../../src/outbox/enqueue.js';
import { messageRow } from '../../../src/outbox/message-row.js';
import { OrderKeysStore } from '../../../src/outbox/order-keys.store.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';

let database: TestDatabase;
let dataSource: DataSource;
let pool: ControlPool;
let told: number;
let unwatch: () => void;
let watcher: CommitWatcher;

beforeAll(async () => {
  database = await migrated(await createTestDatabase('commit_watcher'));
  await database.query('CREATE TABLE other (id INT) ENGINE=InnoDB');
  dataSource = await new DataSource(database.options).initialize();
  pool = new ControlPool(dataSource, { size: 2 });
});
beforeEach(() => watchWith(() => told++));
afterEach(async () => {
  unwatch();
  dataSource.subscribers.length = 0;
  await database.query('DELETE FROM outbox_message');
});
afterAll(async () => {
  await pool.close();
  await dataSource.destroy();
  await database.drop();
});

function watchWith(onCommit: () => void): void {
  unwatch?.();
  told = 0;
  watcher = new CommitWatcher(onCommit);
  unwatch = watcher.watch(dataSource);
}
const enqueue = (manager: EntityManager) =>
  insertMessages(manager, [messageRow({ topic: 't', payload: 1 }, {})], {
    watcher,
    pool,
    orderKeys: new OrderKeysStore(pool),
  });
const fail = () => Promise.reject(new Error('changed my mind'));
const stored = async () => (await database.query('SELECT id FROM outbox_message')).length;

test('once per transaction, when it has committed', async () => {
  await dataSource.transaction(async (manager) => {
    await enqueue(manager);
    await enqueue(manager);
    expect(told).toBe(0);
  });
  expect(told).toBe(1);
});

test('not for a transaction that enqueued nothing, and not for one that rolled back', async () => {
  await dataSource.transaction((manager) => manager.query('INSERT INTO other VALUES (1)'));
  await dataSource.transaction((manager) => enqueue(manager).then(fail)).catch(() => undefined);
  expect(told).toBe(0);
});

test('not when a savepoint is released, but when the transaction around it commits', async () => {
  await dataSource.transaction(async (manager) => {
    await manager.transaction((inner) => inner.transaction(enqueue));
    expect(told).toBe(0);
  });
  expect(told).toBe(1);
});

test('not for what only a rolled-back savepoint enqueued, at any depth', async () => {
  await dataSource.transaction(async (manager) => {
    await manager.transaction((inner) => enqueue(inner).then(fail)).catch(() => undefined);
    await manager.transaction((inner) => inner.transaction(enqueue).then(fail)).catch(() => undefined);
  });
  expect(told).toBe(0);
  expect(await stored()).toBe(0);
});

test('for what was enqueued around a rolled-back savepoint', async () => {
  await dataSource.transaction(async (manager) => {
    await enqueue(manager);
    await manager.transaction((inner) => enqueue(inner).then(fail)).catch(() => undefined);
  });
  expect(told).toBe(1);
  expect(await stored()).toBe(1);
});

test('a runner that rolls back and then commits tells of the second only', async () => {
  const runner = dataSource.createQueryRunner();
  try {
    await runner.startTransaction();
    await enqueue(runner.manager);
    await runner.rollbackTransaction();
    await runner.startTransaction();
    await runner.commitTransaction();
    expect(told).toBe(0);
    await runner.startTransaction();
    await enqueue(runner.manager);
    await runner.commitTransaction();
  } finally {
    await runner.release();
  }
  expect(told).toBe(1);
});

test('not when COMMIT fails', async () => {
  const runner = dataSource.createQueryRunner();
  try {
    await runner.startTransaction();
    await enqueue(runner.manager);
    const [{ id } = { id: 0 }] = (await runner.query('SELECT CONNECTION_ID() AS id')) as { id: number }[];
    await database.query('KILL ?', [id]);
    await expect(runner.commitTransaction()).rejects.toThrow();
  } finally {
    await runner.release();
  }
  expect(told).toBe(0);
  expect(await stored()).toBe(0);
});

test('when whoever is told throws, the request does not notice', async () => {
  watchWith(() => {
    throw new Error('the relay is on fire');
  });
  await dataSource.transaction(enqueue);
  expect(await stored()).toBe(1);
});

test('a subscriber of the application that throws after the commit does not hide it', async () => {
  const angry: EntitySubscriberInterface = {
    afterTransactionCommit() {
      throw new Error('not my day');
    },
  };
  dataSource.subscribers.push(angry);
  await expect(dataSource.transaction(enqueue)).rejects.toThrow('not my day');
  expect(await stored()).toBe(1);
  expect(told).toBe(1);
});

test('a subscriber of the application that throws before the commit: rolled back, and not told', async () => {
  const angry: EntitySubscriberInterface = {
    beforeTransactionCommit() {
      throw new Error('not today');
    },
  };
  dataSource.subscribers.push(angry);
  await expect(dataSource.transaction(enqueue)).rejects.toThrow('not today');
  expect(await stored()).toBe(0);
  expect(told).toBe(0);
});
