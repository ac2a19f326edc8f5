// Every condition of the claim, alone and together with an outcome: what must not be claimed is not.
import { DataSource } from 'typeorm';
import { ControlPool } from '../../../src/database/index.js';
import { LaneStore, newClaimToken } from '../../../src/delivery/index.js';
import { inboxTable } from '../../../src/inbox/inbox-table.js';
import { type Lease, LeaseRowStore } from '../../../src/lease/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';

let database: TestDatabase;
let dataSource: DataSource;
let pool: ControlPool;
let store: LaneStore;
let lease: Lease;

beforeAll(async () => {
  database = await migrated(await createTestDatabase('lane_store'));
  dataSource = await new DataSource(database.options).initialize();
  pool = new ControlPool(dataSource, { size: 2 });
  store = new LaneStore(pool, inboxTable());
});
beforeEach(async () => {
  await database.query('DELETE FROM inbox_message');
  await database.query('DELETE FROM mailroom_lease');
  const fence = await new LeaseRowStore(pool).take('lane', 'me', 60_000);
  if (fence === null) throw new Error('the lease is not free');
  lease = {
    name: 'lane',
    owner: 'me',
    fence,
    signal: new AbortController().signal,
    isHeld: () => true,
    release: async () => undefined,
  };
  for (let n = 0; n < 2; n++) {
    await database.query(
      "INSERT INTO inbox_message (source, type, body, status, next_attempt_at) VALUES ('test', 'work', '{}', 'pending', '2001-01-01')",
    );
  }
});
afterAll(async () => {
  await pool.close();
  await dataSource.destroy();
  await database.drop();
});

async function ids(): Promise<[string, string]> {
  const [a, b] = await database.query<{ id: number }>('SELECT id FROM inbox_message ORDER BY id');
  return [String(a?.id), String(b?.id)];
}
const request = (id: string) => ({ id, token: newClaimToken(), claimant: 'me', claimMs: null });
const statusOf = async (id: string) =>
  (
    await database.query<{ status: string; attempts: number }>(
      'SELECT status, attempts FROM inbox_message WHERE id = ?',
      [id],
    )
  )[0];

const forbidden: [string, (id: string) => Promise<unknown>][] = [
  ['is being handled', (id) => database.query("UPDATE inbox_message SET status = 'processing' WHERE id = ?", [id])],
  ['succeeded meanwhile', (id) => database.query("UPDATE inbox_message SET status = 'success' WHERE id = ?", [id])],
  ['failed meanwhile', (id) => database.query("UPDATE inbox_message SET status = 'failed' WHERE id = ?", [id])],
  ['stepped aside meanwhile', (id) => database.query("UPDATE inbox_message SET status = 'held' WHERE id = ?", [id])],
  [
    'was put off meanwhile',
    (id) =>
      database.query('UPDATE inbox_message SET next_attempt_at = UTC_TIMESTAMP(3) + INTERVAL 1 HOUR WHERE id = ?', [
        id,
      ]),
  ],
  ['was deleted meanwhile', (id) => database.query('DELETE FROM inbox_message WHERE id = ?', [id])],
];
const lostLeases: [string, () => Promise<unknown>][] = [
  ['whose lease has another fence', () => database.query('UPDATE mailroom_lease SET fence = fence + 1')],
  ['whose lease has another owner', () => database.query("UPDATE mailroom_lease SET owner = 'other'")],
  ['whose lease has run out', () => database.query("UPDATE mailroom_lease SET held_until = '2001-01-01'")],
];

test('a due message is claimed, and its attempt is counted', async () => {
  const [a] = await ids();
  expect(await store.claim(lease, request(a))).toBe(true);
  expect(await statusOf(a)).toEqual({ status: 'processing', attempts: 1 });
});

test.each(forbidden)('a message that %s is not claimed', async (_what, change) => {
  const [a] = await ids();
  await change(a);
  const before = await statusOf(a);
  expect(await store.claim(lease, request(a))).toBe(false);
  expect(await statusOf(a)).toEqual(before);
});

test.each(lostLeases)('nothing is claimed by a holder %s', async (_what, change) => {
  const [a] = await ids();
  await change();
  expect(await store.claim(lease, request(a))).toBe(false);
  expect(await statusOf(a)).toEqual({ status: 'pending', attempts: 0 });
});

describe('together with the outcome of the one before', () => {
  async function finishAndClaim(
    between: (next: string) => Promise<unknown>,
  ): Promise<{ changed: number; done: string; next: string }> {
    const [done, next] = await ids();
    const claim = request(done);
    expect(await store.claim(lease, claim)).toBe(true);
    await between(next);
    const success = { claim, outcome: { kind: 'success' }, park: false } as const;
    return { changed: await store.complete(store.sendAlone, lease, success, request(next)), done, next };
  }

  test('both happen in one statement', async () => {
    const { changed, done, next } = await finishAndClaim(async () => undefined);
    expect(changed).toBe(2);
    expect(await statusOf(done)).toEqual({ status: 'success', attempts: 1 });
    expect(await statusOf(next)).toEqual({ status: 'processing', attempts: 1 });
  });

  test.each(forbidden)('a next message that %s is not claimed, the outcome stands', async (_what, change) => {
    const { changed, done, next } = await finishAndClaim(change);
    expect(changed).toBe(1);
    expect(await statusOf(done)).toMatchObject({ status: 'success' });
    expect((await statusOf(next))?.attempts ?? 0).toBe(0);
  });

  test.each(lostLeases.slice(0, 2))('a holder %s writes no outcome and claims nothing', async (_what, change) => {
    const { changed, done, next } = await finishAndClaim(change);
    expect(changed).toBe(0);
    expect(await statusOf(done)).toMatchObject({ status: 'processing' });
    expect(await statusOf(next)).toEqual({ status: 'pending', attempts: 0 });
  });

  test('a holder whose lease has run out, and that nobody replaced, may finish but claims nothing', async () => {
    const { changed, done, next } = await finishAndClaim(() =>
      database.query("UPDATE mailroom_lease SET held_until = '2001-01-01'"),
    );
    expect(changed).toBe(1);
    expect(await statusOf(done)).toMatchObject({ status: 'success' });
    expect(await statusOf(next)).toEqual({ status: 'pending', attempts: 0 });
  });
});
