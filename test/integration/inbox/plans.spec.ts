// What the engine's statements cost in a large table: which index they use, how many rows they touch, and that nothing
// is sorted. Long form: FINISHED=1000000 PENDING=100000.
import { randomBytes } from 'node:crypto';
import { type Connection, createConnection } from 'mysql2/promise';
import { DataSource } from 'typeorm';
import type { Row } from '../../../src/database/index.js';
import { type ControlConnection, ControlPool, type StatementResult } from '../../../src/database/index.js';
import {
  ClaimStore,
  EntityOrderStore,
  findLanes,
  LaneStore,
  newClaimToken,
  PutOffStore,
  RecoveryStore,
} from '../../../src/delivery/index.js';
import { inboxTable } from '../../../src/inbox/inbox-table.js';
import { LeaseKeeper, LeaseRowStore, openGate } from '../../../src/lease/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';

const finished = Number(process.env.FINISHED ?? 60_000);
const pending = Number(process.env.PENDING ?? 10_000);
const batch = 50;

interface Statement {
  readonly sql: string;
  readonly values: readonly unknown[];
}

/** Notes every statement that goes through it. */
class NotingPool extends ControlPool {
  readonly statements: Statement[] = [];
  /** Asked before a write is carried out: afterwards its rows do not match any more. */
  before: ((statement: Statement) => Promise<void>) | undefined;

  override async execute(sql: string, values: readonly unknown[] = []): Promise<StatementResult> {
    this.statements.push({ sql, values });
    await this.before?.({ sql, values });
    return super.execute(sql, values);
  }

  override rows<T extends Row>(sql: string, values: readonly unknown[] = []): Promise<T[]> {
    this.statements.push({ sql, values });
    return super.rows<T>(sql, values);
  }

  override transaction<T>(work: (tx: ControlConnection) => Promise<T>): Promise<T> {
    return super.transaction((tx) => {
      const noting = Object.create(tx) as ControlConnection;
      noting.rows = (sql, values = []) => {
        this.statements.push({ sql, values });
        return tx.rows(sql, values);
      };
      noting.query = async (sql, values = []) => {
        this.statements.push({ sql, values });
        await this.before?.({ sql, values });
        return tx.query(sql, values);
      };
      return work(noting);
    });
  }
}

let database: TestDatabase;
let dataSource: DataSource;
let pool: NotingPool;
let connection: Connection;
const table = inboxTable('inbox_message');

beforeAll(async () => {
  database = await migrated(await createTestDatabase('plans'));
  dataSource = await new DataSource(database.options).initialize();
  pool = new NotingPool(dataSource, { size: 4 });
  connection = await createConnection(database.url);
  await fill("'success'", 'NULL', finished);
  await fill("'pending'", 'n + 1', pending);
  await database.query('ANALYZE TABLE inbox_message');
}, 600_000);
afterAll(async () => {
  await connection.end();
  await pool.close();
  await dataSource.destroy();
  await database.drop();
});

/** Rows in chunks, each with an entity of its own where `open` says so. */
async function fill(status: string, open: string, count: number): Promise<void> {
  const digits =
    '(SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)';
  for (let done = 0; done < count; done += 10_000) {
    await database.query(
      `INSERT INTO inbox_message (source, type, open_entity, body, status, next_attempt_at, received_at)
       SELECT 'test', 'work', ${open}, '{"type":"work"}', ${status}, UTC_TIMESTAMP(3) - INTERVAL 1 HOUR, UTC_TIMESTAMP(3)
         FROM (SELECT ${done} + a.d + 10 * b.d + 100 * c.d + 1000 * d.d AS n FROM ${digits} a, ${digits} b, ${digits} c, ${digits} d) numbers
        WHERE n < ${count}`,
    );
  }
}

async function noted(work: () => Promise<unknown>): Promise<Statement[]> {
  const from = pool.statements.length;
  await work();
  return pool.statements.slice(from);
}

interface Plan {
  readonly table: string | null;
  readonly type: string | null;
  readonly key: string | null;
  readonly Extra: string | null;
}

async function plan({ sql, values }: Statement): Promise<Plan[]> {
  const [rows] = await connection.query(`EXPLAIN ${database.flavour === 'mysql' ? 'FORMAT=TRADITIONAL ' : ''}${sql}`, [
    ...values,
  ]);
  return rows as Plan[];
}

/** Rows that the server reads for a statement, found or passed over. */
async function rowsRead({ sql, values }: Statement): Promise<number> {
  await connection.query('FLUSH STATUS');
  await connection.query(sql, [...values]);
  const [rows] = await connection.query("SHOW SESSION STATUS LIKE 'Handler_read%'");
  return (rows as { Value: string }[]).reduce((sum, row) => sum + Number(row.Value), 0);
}

async function expectCheap(statements: readonly Statement[], mostRows: number): Promise<void> {
  expect(statements.length).toBeGreaterThan(0);
  for (const statement of statements) {
    for (const step of await plan(statement)) {
      expect(`${step.Extra ?? ''} of ${statement.sql}`).not.toMatch(/filesort|temporary; Using filesort/);
      if (step.table?.match(/inbox_message|^[mo]$/))
        expect([statement.sql, step.key]).toEqual([statement.sql, expect.any(String)]);
    }
    if (/^\s*\(?SELECT/i.test(statement.sql)) {
      const read = await rowsRead(statement);
      expect(`${read <= mostRows} ${read} of ${statement.sql}`).toMatch(/^true/);
    }
  }
}

const lane = () => new LaneStore(pool, table);

test('looking for work touches a few rows', async () => {
  await expectCheap(await noted(() => lane().hasWork(0)), 6);
});

test('reading ahead touches at most twice the batch, by the claim index', async () => {
  const statements = await noted(() => lane().readAhead(0, batch, '1970-01-01 00:00:00.000'));
  const [first] = statements;
  expect(first && (await plan(first)).map((step) => step.key)).toContain('inbox_claim');
  await expectCheap(statements, 2 * batch + 2);
});

test('the claim and the outcome go by primary key', async () => {
  const keeper = new LeaseKeeper(openGate, new LeaseRowStore(pool), 'plans', { ttlMs: 60_000, renewMs: 20_000 });
  const lease = await (await keeper.enter('plans'))?.take({ maxHoldMs: 60_000 });
  if (!lease) throw new Error('the lease is not free');
  try {
    const store = lane();
    const [a, b] = await store.readAhead(0, 2, '1970-01-01 00:00:00.000');
    if (!a || !b) throw new Error('nothing is pending');
    const request = (id: string) => ({ id, token: newClaimToken(), claimant: 'plans', claimMs: null });
    const [claimA, claimB] = [request(a.id), request(b.id)];
    const steps: [sql: string, step: Plan | undefined, all: Plan[]][] = [];
    pool.before = async (statement) => {
      const all = await plan(statement);
      steps.push([statement.sql, all.find((step) => step.table === 'm'), all]);
    };
    expect(await store.claim(lease, claimA)).toBe(true);
    const success = { claim: claimA, outcome: { kind: 'success' }, park: false } as const;
    expect(await store.complete(store.sendAlone, lease, success, claimB)).toBe(2);
    expect(await store.abandon({ claim: claimB, outcome: { kind: 'released' }, park: false })).toBe(true);
    expect(steps).toHaveLength(3);
    for (const [sql, step, all] of steps) {
      expect([sql, step?.key]).toEqual([sql, 'PRIMARY']);
      for (const { Extra } of all) expect(Extra ?? '').not.toMatch(/filesort|temporary/);
    }
  } finally {
    pool.before = undefined;
    await lease.release();
  }
});

test('a batch claim of competing consumers reads by the claim index and writes by primary key', async () => {
  const store = new ClaimStore(pool, table);
  const token = newClaimToken();
  await expectCheap(await noted(() => store.hasDue(0, [])), 3);
  const writes: Plan[] = [];
  pool.before = async (statement) => {
    writes.push(...(await plan(statement)));
  };
  let claimed: readonly string[] = [];
  const request = { lane: 0, limit: batch, from: '1970-01-01 00:00:00.000', except: [], token, claimMs: 60_000 };
  const statements = await noted(() =>
    store.claimBatch(request, async (due) => {
      claimed = due.map(({ id }) => id);
      return { ids: claimed, claimant: 'plans' };
    }),
  );
  pool.before = undefined;
  expect(claimed).toHaveLength(batch);
  expect(writes.map(({ key }) => key)).toEqual(['PRIMARY']);
  const [select] = statements;
  expect(select && (await plan(select)).map((step) => step.key)).toEqual(['inbox_claim']);
  await expectCheap(statements.slice(0, 1), 2 * batch);
  expect(await store.extend(token, claimed, 60_000)).toBe(batch);
  expect(await store.release(token, claimed)).toBe(batch);
  expect(await store.release(token, claimed)).toBe(0);
});

test('recovery, the sweep, lane discovery and putting off stay in their index', async () => {
  await database.query(
    "UPDATE inbox_message SET status = 'processing', claim_token = ?, claimed_until = '2001-01-01' WHERE status = 'pending' ORDER BY id DESC LIMIT 20",
    [randomBytes(16)],
  );
  const recovery = new RecoveryStore(pool, table, { maxRetryOf: () => 3, parksOn: () => false });
  expect(await recovery.recoverExpired()).toHaveLength(20);
  const order = new EntityOrderStore(pool, table);
  await expectCheap(await noted(() => order.repair(null, 500)), 10);
  await expectCheap(await noted(() => findLanes(pool, table, 1)), 6);
  const statements = await noted(() => new PutOffStore(pool, table).putOff(0, 'test', 'work', 1_000));
  await expectCheap(statements, 1_100);
});

test('neither a mass of an unknown type nor one of a blocked entity at the head makes reading ahead dearer', async () => {
  const order = new EntityOrderStore(pool, table);
  await database.query(
    `UPDATE inbox_message SET open_entity = 17446744073709551615, next_attempt_at = UTC_TIMESTAMP(3) - INTERVAL 2 HOUR
      WHERE status = 'pending' ORDER BY id LIMIT ${Math.floor(pending / 2)}`,
  );
  await expectCheap(await noted(() => lane().readAhead(0, batch, '1970-01-01 00:00:00.000')), 3 * batch);
  await expectCheap(await noted(() => order.comeBack('17446744073709551615')), 60);
  const [head] = await lane().readAhead(0, 1, '1970-01-01 00:00:00.000');
  const statements = await noted(() => order.stepAside('17446744073709551615', head?.id ?? '0'));
  await expectCheap(statements.slice(0, 1), 1_100);
});
