// What the engine's statements cost in a large table: which index they use, how many rows they touch, and that nothing
// is sorted. Long form: FINISHED=1000000 PENDING=100000.
import { randomBytes } from 'node:crypto';
import {
  ClaimStore,
  EntityOrderStore,
  findLanes,
  LaneStore,
  newClaimToken,
  PutOffStore,
  RecoveryStore,
} from '../../../src/delivery/index.js';
import { InboxStatsStore } from '../../../src/inbox/inbox-stats.store.js';
import { inboxTable } from '../../../src/inbox/inbox-table.js';
import { LeaseKeeper, LeaseRowStore, openGate } from '../../../src/lease/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { type NotingPool, numbers, type PlanStep, PlanWatch } from '../../support/plans.js';

const finished = Number(process.env.FINISHED ?? 60_000);
const pending = Number(process.env.PENDING ?? 10_000);
const batch = 50;

let database: TestDatabase;
let watch: PlanWatch;
let pool: NotingPool;
const table = inboxTable();

beforeAll(async () => {
  database = await migrated(await createTestDatabase('plans'));
  watch = await PlanWatch.open(database);
  pool = watch.pool;
  await fill("'success'", 'NULL', finished);
  await fill("'pending'", 'n + 1', pending);
  await database.query('ANALYZE TABLE inbox_message');
}, 600_000);
afterAll(async () => {
  await watch.close();
  await database.drop();
});

/** Rows in chunks, each with an entity of its own where `open` says so. */
async function fill(status: string, open: string, count: number): Promise<void> {
  for (let done = 0; done < count; done += 10_000) {
    await database.query(
      `INSERT INTO inbox_message (source, type, open_entity, body, status, next_attempt_at, received_at)
       SELECT 'test', 'work', ${open}, '{"type":"work"}', ${status}, UTC_TIMESTAMP(3) - INTERVAL 1 HOUR, UTC_TIMESTAMP(3)
         FROM ${numbers(done, Math.min(10_000, count - done))}`,
    );
  }
}

const lane = () => new LaneStore(pool, table);

test('looking for work touches a few rows', async () => {
  await watch.expectCheap(await watch.noted(() => lane().hasWork(0)), 6);
});

test('reading ahead touches at most twice the batch, by the claim index', async () => {
  const statements = await watch.noted(() => lane().readAhead(0, batch, '1970-01-01 00:00:00.000'));
  const [first] = statements;
  expect(first && (await watch.plan(first)).map((step) => step.key)).toContain('inbox_claim');
  await watch.expectCheap(statements, 2 * batch + 2);
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
    const steps: [sql: string, step: PlanStep | undefined, all: PlanStep[]][] = [];
    pool.before = async (statement) => {
      const all = await watch.plan(statement);
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
  await watch.expectCheap(await watch.noted(() => store.hasDue(0, [])), 3);
  const writes: PlanStep[] = [];
  pool.before = async (statement) => {
    writes.push(...(await watch.plan(statement)));
  };
  let claimed: readonly string[] = [];
  const request = { lane: 0, limit: batch, from: '1970-01-01 00:00:00.000', except: [], token, claimMs: 60_000 };
  const statements = await watch.noted(() =>
    store.claimBatch(request, async (due) => {
      claimed = due.map(({ id }) => id);
      return { ids: claimed, claimant: 'plans' };
    }),
  );
  pool.before = undefined;
  expect(claimed).toHaveLength(batch);
  expect(writes.map(({ key }) => key)).toEqual(['PRIMARY']);
  const [select] = statements;
  expect(select && (await watch.plan(select)).map((step) => step.key)).toEqual(['inbox_claim']);
  await watch.expectCheap(statements.slice(0, 1), 2 * batch);
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
  await watch.expectCheap(await watch.noted(() => order.repair(null, 500)), 10);
  await watch.expectCheap(await watch.noted(() => findLanes(pool, table, 1)), 6);
  const statements = await watch.noted(() => new PutOffStore(pool, table).putOff(0, 'test', 'work', 1_000));
  await watch.expectCheap(statements, 1_100);
});

test('stats look into the claim index, capped, however many rows there are', async () => {
  const stats = new InboxStatsStore(pool, table);
  for (const statement of await watch.noted(() => stats.counts())) {
    for (const step of await watch.plan(statement)) expect(step.Extra ?? '').not.toMatch(/filesort/);
    // Of one status each, whose entries are not all counted.
    expect(await watch.rowsRead(statement)).toBeLessThan(2 * 10_001 + 100);
  }
  await watch.expectCheap(await watch.noted(() => stats.lanes()), 100);
});

test('neither a mass of an unknown type nor one of a blocked entity at the head makes reading ahead dearer', async () => {
  const order = new EntityOrderStore(pool, table);
  await database.query(
    `UPDATE inbox_message SET open_entity = 17446744073709551615, next_attempt_at = UTC_TIMESTAMP(3) - INTERVAL 2 HOUR
      WHERE status = 'pending' ORDER BY id LIMIT ${Math.floor(pending / 2)}`,
  );
  await watch.expectCheap(await watch.noted(() => lane().readAhead(0, batch, '1970-01-01 00:00:00.000')), 3 * batch);
  await watch.expectCheap(await watch.noted(() => order.comeBack('17446744073709551615')), 60);
  const [, second] = await lane().readAhead(0, 2, '1970-01-01 00:00:00.000');
  let from = second?.id ?? '';
  // Also behind thousands that have stepped aside already.
  for (let step = 0; step < 5; step++) {
    const statements = await watch.noted(async () => {
      from = (await order.stepAside('17446744073709551615', from)).last ?? '';
    });
    await watch.expectCheap(statements.slice(0, 1), 1_100);
  }
});
