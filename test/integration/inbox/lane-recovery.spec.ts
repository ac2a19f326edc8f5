// What a new holder of a lane finds of the former one, beside another instance whose timer recovers at the same moment.
import { DataSource, type QueryRunner } from 'typeorm';
import { ControlPool } from '../../../src/database/index.js';
import { RecoveryStore } from '../../../src/delivery/index.js';
import { inboxTable } from '../../../src/inbox/inbox-table.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';

let database: TestDatabase;
let dataSource: DataSource;
let pool: ControlPool;
let store: RecoveryStore;
const foreign: QueryRunner[] = [];

beforeAll(async () => {
  database = await migrated(await createTestDatabase('lane_recovery'));
  dataSource = await new DataSource(database.options).initialize();
  pool = new ControlPool(dataSource, { size: 2 });
  store = new RecoveryStore(pool, inboxTable(), { maxRetryOf: () => 3, parksOn: () => false });
});
afterEach(async () => {
  for (const runner of foreign.splice(0)) {
    await runner.query('ROLLBACK');
    await runner.release();
  }
  await database.query('DELETE FROM inbox_message');
});
afterAll(async () => {
  await pool.close();
  await dataSource.destroy();
  await database.drop();
});

async function orphans(count: number): Promise<string[]> {
  const row = `('test', 'work', '{}', 'processing', '2001-01-01', 1, UNHEX(REPEAT('ab', 16)), 'gone', '2001-01-01')`;
  await database.query(
    `INSERT INTO inbox_message (source, type, body, status, next_attempt_at, attempts, claim_token, claimed_by, claimed_until)
     VALUES ${Array(count).fill(row).join(', ')}`,
  );
  return (await database.query<{ id: string }>('SELECT CAST(id AS CHAR) AS id FROM inbox_message')).map(({ id }) => id);
}

async function foreignTransaction(): Promise<QueryRunner> {
  const runner = dataSource.createQueryRunner('master');
  foreign.push(runner);
  await runner.query('START TRANSACTION');
  return runner;
}

const statuses = () =>
  database.query('SELECT status, COUNT(*) AS n FROM inbox_message GROUP BY status ORDER BY status');

test('all that ran under the former holder is given back, however much it was', async () => {
  const ids = await orphans(250);
  const recovered = await pool.transaction((tx) => store.recoverLane(tx, 0));
  expect(recovered.map(({ orphan }) => orphan.id).sort()).toEqual([...ids].sort());
  expect(await statuses()).toEqual([{ status: 'pending', n: 250 }]);
});

test('a message that another instance is giving back at this moment is waited for, so that the lane begins with it', async () => {
  const [id] = await orphans(1);
  const other = await foreignTransaction();
  await other.query("UPDATE inbox_message SET status = 'pending', claim_token = NULL WHERE id = ?", [id]);
  const seen = await pool.transaction(async (tx) => {
    const rows = tx.rows.bind(tx);
    let locking = 0;
    // The other one commits after the new holder has met its lock twice.
    tx.rows = async (sql, values) => {
      const found = await rows(sql, values);
      if (sql.includes('SKIP LOCKED') && ++locking === 2) await other.query('COMMIT');
      return found as never;
    };
    expect(await store.recoverLane(tx, 0)).toEqual([]);
    return rows('SELECT status FROM inbox_message');
  });
  expect(seen).toEqual([{ status: 'pending' }]);
});

test('somebody who keeps such a message locked does not keep the lane: it goes on without it, and the timer brings it', async () => {
  const [locked] = await orphans(2);
  const other = await foreignTransaction();
  await other.query('SELECT 1 FROM inbox_message WHERE id = ? FOR UPDATE', [locked]);
  expect(await pool.transaction((tx) => store.recoverLane(tx, 0))).toHaveLength(1);
  await other.query('ROLLBACK');
  expect((await store.recoverExpired()).map(({ orphan }) => orphan.id)).toEqual([locked]);
});
