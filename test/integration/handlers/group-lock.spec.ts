// The locks of groups on a real server: who gets one, what a rollback and a crash leave behind, and the sweep.
import { DataSource } from 'typeorm';
import { ControlPool, detectDialect } from '../../../src/database/index.js';
import { GroupLockStore, HandlerSession, HandlerTransaction } from '../../../src/delivery/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';

let database: TestDatabase;
let dataSource: DataSource;
let pool: ControlPool;
let locks: GroupLockStore;
const sessions: HandlerSession[] = [];

beforeAll(async () => {
  database = await migrated(await createTestDatabase('group_lock'));
  dataSource = await new DataSource(database.options).initialize();
  pool = new ControlPool(dataSource, { size: 3 });
  locks = new GroupLockStore(pool);
});
afterEach(async () => {
  for (const session of sessions.splice(0)) await session.close();
  await database.query('DELETE FROM mailroom_lease');
});
afterAll(async () => {
  await pool.close();
  await dataSource.destroy();
  await database.drop();
});

function transaction(): HandlerTransaction {
  const session = new HandlerSession(dataSource, () => detectDialect(pool), 60);
  sessions.push(session);
  return new HandlerTransaction(dataSource, session);
}

const name = (n: number) => `inbox:group:${String(n).padStart(40, '0')}`;
const left = async () =>
  (await database.query<{ name: string }>('SELECT name FROM mailroom_lease ORDER BY name')).map((row) => row.name);

test('one transaction has a group until it ends; others are told at once', async () => {
  const [one, other] = [transaction(), transaction()];
  expect(await locks.take(one, name(1))).toBe(true);
  expect(await locks.take(other, name(1))).toBe(false);
  expect(await locks.take(other, name(2))).toBe(true);
  await one.rollback('the test says so');
  expect(await locks.take(other, name(1))).toBe(true);
  await other.rollback('the test is over');
});

test('the row goes with the commit, and who takes the group next has a row of its own', async () => {
  const [one, other] = [transaction(), transaction()];
  await locks.take(one, name(1));
  await locks.drop(one, name(1));
  // It is still ours: the DELETE is not committed.
  expect(await locks.take(other, name(1))).toBe(false);
  await one.commit();
  expect(await left()).toEqual([]);
  expect(await locks.take(other, name(1))).toBe(true);
  await other.rollback('the test is over');
});

test('a row that is deleted between looking and locking is made again', async () => {
  const tx = transaction();
  const { rows } = tx;
  let looks = 0;
  tx.rows = async (sql, values) => {
    if (++looks === 1) await database.query('DELETE FROM mailroom_lease');
    return rows(sql, values);
  };
  expect(await locks.take(tx, name(1))).toBe(true);
  expect(looks).toBe(2);
  await tx.rollback('the test is over');
});

test('a sweep deletes what nobody has, a hundred at a time, and leaves the groups in work and the lanes alone', async () => {
  const tx = transaction();
  await locks.take(tx, name(7));
  await database.query("INSERT INTO mailroom_lease (name) VALUES ('inbox:lane:0')");
  const others = Array.from({ length: 149 }, (_, n) => name(n + 100));
  await database.query(`INSERT INTO mailroom_lease (name) VALUES ${others.map(() => '(?)').join(', ')}`, others);
  await locks.sweep();
  expect(await left()).toHaveLength(52);
  await locks.sweep();
  expect(await left()).toEqual([name(7), 'inbox:lane:0']);
  await tx.rollback('the test is over');
  await locks.sweep();
  expect(await left()).toEqual(['inbox:lane:0']);
});

test('a sweep does not wait for the lease of a lane that somebody is taking', async () => {
  const holder = transaction();
  await database.query("INSERT INTO mailroom_lease (name) VALUES ('inbox:lane:0'), (?)", [name(1)]);
  await holder.rows("SELECT name FROM mailroom_lease WHERE name = 'inbox:lane:0' FOR UPDATE", []);
  await locks.sweep();
  expect(await left()).toEqual(['inbox:lane:0']);
  await holder.rollback('the test is over');
});
