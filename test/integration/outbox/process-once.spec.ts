import { DataSource } from 'typeorm';
import { type KnownIds, processedCache, processOnce, TransactionRequiredError } from '../../../src/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { gate } from '../../support/gate.js';
import { testRedisUrl } from '../../support/redis.js';
import { waitUntil } from '../../support/wait-until.js';

let database: TestDatabase;
let dataSource: DataSource;

beforeAll(async () => {
  database = await migrated(await createTestDatabase('process_once'));
  await database.query('CREATE TABLE effect (name TEXT NOT NULL)');
  dataSource = await new DataSource(database.options).initialize();
});
afterEach(async () => {
  for (const table of ['effect', 'mailroom_processed']) await database.query(`DELETE FROM ${table}`);
});
afterAll(async () => {
  await dataSource.destroy();
  await database.drop();
});

const once = (id: string, consumer = 'shop', cache?: KnownIds, fail = false) =>
  dataSource.transaction((manager) =>
    processOnce(
      id,
      consumer,
      manager,
      async () => {
        await manager.query('INSERT INTO effect (name) VALUES (?)', [`${consumer}:${id}`]);
        if (fail) throw new Error('not now');
        return 'result';
      },
      { cache },
    ),
  );
const effects = async () =>
  (await database.query<{ name: string }>('SELECT name FROM effect ORDER BY name')).map(({ name }) => name);

test('the work is done once per consumer, and its result is handed back', async () => {
  expect(await once('m1')).toEqual({ done: true, result: 'result' });
  expect(await once('m1')).toEqual({ done: false });
  expect(await once('m1', 'mail')).toEqual({ done: true, result: 'result' });
  expect(await effects()).toEqual(['mail:m1', 'shop:m1']);
});

test('what fails is not noted, and done at the next delivery', async () => {
  await expect(once('m2', 'shop', undefined, true)).rejects.toThrow('not now');
  expect(await effects()).toEqual([]);
  expect(await once('m2')).toEqual({ done: true, result: 'result' });
});

test('of fifty deliveries at the same time one does it', async () => {
  const all = await Promise.all(Array.from({ length: 50 }, () => once('m3')));
  expect(all.filter(({ done }) => done)).toHaveLength(1);
  expect(await effects()).toEqual(['shop:m3']);
});

test('a delivery that comes while another is at work waits for it, and does it when that is rolled back', async () => {
  const entered = gate();
  const hold = gate();
  const first = dataSource.transaction((manager) =>
    processOnce('m4', 'shop', manager, async () => {
      entered.open();
      await hold.opened;
      throw new Error('rolled back');
    }),
  );
  first.catch(() => undefined);
  await entered.opened;
  const second = once('m4');
  await waitUntil(
    async () =>
      (
        await database.query<{ n: number }>(
          "SELECT COUNT(*) AS n FROM information_schema.processlist WHERE db = ? AND info LIKE 'INSERT INTO mailroom_processed%'",
          [database.name],
        )
      )[0]?.n === 1,
    { what: 'the second waits' },
  );
  hold.open();
  await expect(first).rejects.toThrow('rolled back');
  expect(await second).toEqual({ done: true, result: 'result' });
});

test('ids that differ in case, blanks or accents are different; long ones count by their hash', async () => {
  for (const id of ['a', 'A', 'a ', 'á', 'x'.repeat(300), `${'x'.repeat(299)}y`])
    expect(await once(id)).toMatchObject({ done: true });
  expect(await once('x'.repeat(300))).toEqual({ done: false });
});

test('without a transaction, an id or a consumer it is refused', async () => {
  const work = () => 1;
  await expect(processOnce('m', 'shop', dataSource.manager, work)).rejects.toThrow(TransactionRequiredError);
  await expect(once('')).rejects.toThrow(/messageId/);
  await expect(once('m', 'two words')).rejects.toThrow(/consumer/);
});

describe.each<[string, () => Promise<KnownIds>]>([
  ['memory', () => processedCache()],
  ['memory and Redis', () => processedCache({ redis: testRedisUrl(), namespace: database.name })],
])('with a cache in %s', (_name, open) => {
  test('what the table said once is answered without it, and what may be rolled back is never remembered', async () => {
    const cache = await open();
    try {
      await expect(
        dataSource.transaction(async (manager) => {
          await processOnce('m5', 'shop', manager, () => 1, { cache });
          // Twice in one transaction: a duplicate of what is not committed.
          expect(await processOnce('m5', 'shop', manager, () => 2, { cache })).toEqual({ done: false });
          throw new Error('rolled back');
        }),
      ).rejects.toThrow('rolled back');
      expect(await once('m5', 'shop', cache)).toMatchObject({ done: true });
      expect(await once('m5', 'shop', cache)).toEqual({ done: false });
      await database.query('DELETE FROM mailroom_processed');
      expect(await once('m5', 'shop', cache)).toEqual({ done: false });
      expect(await once('m5', 'other', cache)).toMatchObject({ done: true });
    } finally {
      cache.close();
    }
  });
});

test('a Redis that is away costs a look into the table and nothing else', async () => {
  const cache = await processedCache({ redis: 'redis://127.0.0.1:1' });
  try {
    expect(await once('m6', 'shop', cache)).toMatchObject({ done: true });
    expect(await once('m6', 'shop', cache)).toEqual({ done: false });
  } finally {
    cache.close();
  }
});
