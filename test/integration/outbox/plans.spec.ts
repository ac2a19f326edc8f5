// What the relay's statements cost beside many sent messages, and one key with many waiting ones. Long form: SENT=1000000.
import {
  ClaimStore,
  EntityOrderStore,
  NeighbourLookup,
  newClaimToken,
  RecoveryStore,
} from '../../../src/delivery/index.js';
import { OutboxQueries } from '../../../src/outbox/outbox-queries.js';
import { outboxTable } from '../../../src/outbox/outbox-table.js';
import { ReceiverStore } from '../../../src/outbox/receiver.store.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { numbers, PlanWatch } from '../../support/plans.js';

const sent = Number(process.env.SENT ?? 40_000);
const hot = Number(process.env.HOT ?? 20_000);
const batch = 100;
/** stats() reads 10,001 at most of those sent, due and held; of what is due they are read once more where they are counted. */
const mostCounted = 4 * 10_001 + 100;
const hotUnit = '17446744073709551615';

let database: TestDatabase;
let watch: PlanWatch;

beforeAll(async () => {
  database = await migrated(await createTestDatabase('outbox_plans'));
  watch = await PlanWatch.open(database);
  await fill('s', sent, "'sent'", 'NULL', "'bob'", '2 HOUR');
  await fill('h', hot, "'pending'", hotUnit, "'bob'", '1 HOUR');
  await fill('p', 2_000, "'pending'", 'n + 1', 'NULL', '30 MINUTE');
  await database.query('ANALYZE TABLE outbox_message');
}, 600_000);
afterAll(async () => {
  await watch.close();
  await database.drop();
});

async function fill(
  prefix: string,
  count: number,
  status: string,
  unit: string,
  receiver: string,
  age: string,
): Promise<void> {
  for (let done = 0; done < count; done += 10_000) {
    await database.query(
      `INSERT INTO outbox_message (message_id, topic, receiver, open_unit, payload, status, next_attempt_at, created_at)
       SELECT CONCAT('${prefix}', n), 't', ${receiver}, ${unit}, '1', ${status}, UTC_TIMESTAMP(3) - INTERVAL ${age}, UTC_TIMESTAMP(3)
         FROM ${numbers(done, Math.min(10_000, count - done))}`,
    );
  }
}

const request = () => ({
  lane: 0,
  limit: batch,
  from: '1970-01-01 00:00:00.000',
  except: [],
  token: newClaimToken(),
  claimMs: 60_000,
});

test('a claim of one key with many messages reads twice the batch and looks the key up once', async () => {
  const store = new ClaimStore(watch.pool, outboxTable);
  const lookup = new NeighbourLookup(watch.pool, outboxTable);
  await watch.expectCheap(await watch.noted(() => store.hasDue(0, [])), 3);
  let read = 0;
  const statements = await watch.noted(() =>
    store.claimBatch(request(), async (due, tx) => {
      read = due.length;
      expect(new Set(due.map(({ open }) => open))).toEqual(new Set([hotUnit]));
      const places = await lookup.find(due, batch + 2, tx);
      expect(places.get(due[1]?.id ?? '')?.previous).toBe(due[0]?.id);
      return { ids: [], claimant: 'plans' };
    }),
  );
  expect(read).toBe(batch);
  expect((await watch.plan(statements[0] as never)).map(({ key }) => key)).toEqual(['outbox_claim']);
  expect((await watch.plan(statements[1] as never)).map(({ key }) => key)).toContain('outbox_unit');
  await watch.expectCheap(statements, 2 * batch + 10);
});

test('what is being moved out of the queue is read past, in the order of the claim index', async () => {
  const [head, second] = await database.query<{ id: string }>(
    'SELECT CAST(id AS CHAR) AS id FROM outbox_message WHERE open_unit = ? ORDER BY id LIMIT 2',
    [hotUnit],
  );
  let read: readonly { readonly id: string; readonly open: string | null }[] = [];
  const statements = await watch.noted(() =>
    new ClaimStore(watch.pool, outboxTable).claimBatch(
      { ...request(), crowds: [{ kind: 'unit', open: hotUnit, from: second?.id ?? '' }] },
      async (due) => {
        read = due;
        return { ids: [], claimant: 'plans' };
      },
    ),
  );
  expect(read).toHaveLength(batch);
  expect(read.filter(({ open }) => open === hotUnit).map(({ id }) => id)).toEqual([head?.id]);
  for (const step of await watch.plan(statements[0] as never)) {
    expect(step.key).toBe('outbox_claim');
    expect(step.Extra ?? '').not.toMatch(/filesort/);
  }
});

test('followers step aside and come back in bounded steps', async () => {
  const order = new EntityOrderStore(watch.pool, outboxTable);
  const [second] = await database.query<{ id: string }>(
    'SELECT CAST(MIN(id) + 1 AS CHAR) AS id FROM outbox_message WHERE open_unit = ?',
    [hotUnit],
  );
  let from = second?.id ?? '';
  // Also behind thousands that have stepped aside already.
  for (let step = 0; step < 10; step++) {
    const aside = await watch.noted(async () => {
      const { moved, last } = await order.stepAside(hotUnit, from);
      expect(moved).toBe(500);
      from = last ?? '';
    });
    await watch.expectCheap(aside.slice(0, 1), 1_100);
  }
  await watch.expectCheap(await watch.noted(() => order.comeBackAll([hotUnit])), 10);
  await watch.expectCheap(await watch.noted(() => order.repair(null, 500)), 1_100);
});

test('recovery, the re-check and stats stay in the claim index, look-ups in theirs', async () => {
  const policy = { maxRetryOf: () => 3, parksOn: () => false };
  const recovery = await watch.noted(() => new RecoveryStore(watch.pool, outboxTable, policy).recoverExpired());
  await watch.expectCheap(recovery, 6);
  await watch.expectCheap(await watch.noted(() => new ReceiverStore(watch.pool).recheck()), 6);
  const queries = new OutboxQueries(watch.pool);
  await watch.expectCheap(await watch.noted(() => queries.find({ id: 's1' })), 10);
  for (const statement of await watch.noted(() => queries.stats())) {
    for (const step of await watch.plan(statement)) expect(step.Extra ?? '').not.toMatch(/filesort/);
    expect(await watch.rowsRead(statement)).toBeLessThan(mostCounted);
  }
});
