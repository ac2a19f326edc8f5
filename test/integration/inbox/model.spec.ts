// A small model drives the real stores: three owners and three messages, interleaved claims, stalls, takeovers,
// recoveries, successes, failures and replays in every order that fast-check thinks of. Stores that are broken on purpose must
// fail it. Long form: MODEL_RUNS=1000.
import fc from 'fast-check';
import { DataSource } from 'typeorm';
import { ControlPool, type StatementResult } from '../../../src/database/index.js';
import { type Candidate, LaneStore, newClaimToken, RecoveryStore } from '../../../src/delivery/index.js';
import type { ClaimRequest, Completion, Send } from '../../../src/delivery/lane.store.js';
import { inboxRunBox, RunStore } from '../../../src/delivery/runs/index.js';
import { inboxTable } from '../../../src/inbox/inbox-table.js';
import { type Lease, LeaseRowStore } from '../../../src/lease/index.js';
import type { Outcome } from '../../../src/message/outcome.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';

const runs = Number(process.env.MODEL_RUNS ?? 60);
const maxRetry = 2;
const lane = 'model:lane:0';
const past = "'2001-01-01 00:00:00'";
const table = inboxTable();

let database: TestDatabase;
let dataSource: DataSource;
let pool: ControlPool;

beforeAll(async () => {
  database = await migrated(await createTestDatabase('model'));
  await database.query('CREATE TABLE effect (message_id BIGINT UNSIGNED NOT NULL, KEY (message_id))');
  dataSource = await new DataSource(database.options).initialize();
  pool = new ControlPool(dataSource, { size: 4 });
});
afterAll(async () => {
  await pool.close();
  await dataSource.destroy();
  await database.drop();
});

interface Stores {
  readonly lanes: LaneStore;
  readonly recovery: RecoveryStore;
  readonly rows: LeaseRowStore;
  readonly recoversAtTakeover: boolean;
  /** A person runs again what failed. */
  replay(): Promise<void>;
}

const policy = { maxRetryOf: () => maxRetry, parksOn: () => false };
const realStores = (): Stores => ({
  lanes: new LaneStore(pool, table),
  recovery: new RecoveryStore(pool, table, policy),
  rows: new LeaseRowStore(pool),
  recoversAtTakeover: true,
  replay: async () => {
    const store = new RunStore(pool, inboxRunBox);
    const id = await store.create(
      { all: true },
      { action: 'replay', actor: 'model', reason: 'model', ratePerSecond: 1, keepOrder: false, maxReplays: 2 },
    );
    const run = await store.get(id);
    const token = await store.claim(id, 'model', 60_000);
    if (!run || !token) throw new Error('the run is not there');
    while ((await store.step(run, token, 10, 60_000)).going);
  },
});

/** What an owner believes. It never learns that time has passed: it is the stalled one. */
interface Owner {
  readonly name: string;
  lease: Lease | null;
  work: { readonly candidate: Candidate; readonly request: ClaimRequest } | null;
}

class World {
  readonly owners: Owner[] = ['a', 'b', 'c'].map((name) => ({ name, lease: null, work: null }));

  constructor(readonly stores: Stores) {}

  async take(owner: Owner): Promise<void> {
    // One loop per lane: who has a message in work does not ask for the lane again.
    if (owner.work) return;
    const fence = await this.stores.rows.take(lane, owner.name, 60_000, async (tx) => {
      if (this.stores.recoversAtTakeover) await this.stores.recovery.recoverLane(tx, 0);
    });
    if (fence === null) return;
    owner.lease = {
      name: lane,
      owner: owner.name,
      fence,
      signal: new AbortController().signal,
      isHeld: () => true,
      release: async () => undefined,
    };
  }

  async claim(owner: Owner): Promise<void> {
    if (!owner.lease || owner.work) return;
    const [candidate] = await this.stores.lanes.readAhead(0, 1, '1970-01-01 00:00:00.000');
    if (!candidate) return;
    const request = { id: candidate.id, token: newClaimToken(), claimant: `${owner.name}!`, claimMs: null };
    if (await this.stores.lanes.claim(owner.lease, request)) owner.work = { candidate, request };
  }

  async succeed(owner: Owner): Promise<void> {
    const { lease, work } = owner;
    if (!lease || !work) return;
    owner.work = null;
    await pool
      .transaction(async (tx) => {
        await tx.execute('INSERT INTO effect (message_id) VALUES (?)', [work.request.id]);
        const changed = await this.stores.lanes.complete(
          (sql, values) => tx.execute(sql, values),
          lease,
          this.completion(work, { kind: 'success' }),
          null,
        );
        if (changed !== 1) throw new Lost();
        await this.expectCurrent(lease);
      })
      .catch((error: unknown) => {
        if (!(error instanceof Lost)) throw error;
      });
  }

  async fail(owner: Owner): Promise<void> {
    const { lease, work } = owner;
    if (!lease || !work) return;
    owner.work = null;
    const error = { kind: 'model', message: 'no' };
    const exhausted = Number(work.candidate.attempts) + 1 > maxRetry;
    const outcome: Outcome = exhausted ? { kind: 'failed', error } : { kind: 'retry', delayMs: 0, error };
    const changed = await this.stores.lanes.complete(
      this.stores.lanes.sendAlone,
      lease,
      this.completion(work, outcome),
      null,
    );
    if (changed === 1) await this.expectCurrent(lease);
  }

  /** An outcome that changed something must be the current holder's. */
  private async expectCurrent(lease: Lease): Promise<void> {
    const [row] = await database.query<{ fence: number }>('SELECT fence FROM mailroom_lease WHERE name = ?', [lane]);
    if (String(row?.fence) !== lease.fence)
      throw new Error(`P3: fence ${lease.fence} wrote an outcome, ${row?.fence} holds the lane`);
  }

  /** Time passes for the database; nobody is told. */
  async passTime(): Promise<void> {
    await database.query(`UPDATE mailroom_lease SET held_until = ${past}`);
    await database.query(`UPDATE inbox_message SET claimed_until = ${past} WHERE status = 'processing'`);
  }

  async recover(): Promise<void> {
    await this.stores.recovery.recoverExpired();
  }

  replay(): Promise<void> {
    return this.stores.replay();
  }

  private completion(work: NonNullable<Owner['work']>, outcome: Outcome): Completion {
    return { claim: work.request, outcome, park: false };
  }
}

class Lost extends Error {}

type Step = readonly [what: 'take' | 'claim' | 'succeed' | 'fail' | 'passTime' | 'recover' | 'replay', owner: number];

const crashes = ['take', 'claim', 'claim', 'succeed', 'succeed', 'fail', 'passTime', 'recover'] as const;

const plansOf = (steps: readonly Step[0][]) =>
  fc.array(fc.tuple(fc.constantFrom<Step[0]>(...steps), fc.integer({ min: 0, max: 2 })), {
    minLength: 10,
    maxLength: 30,
    size: 'max',
  });

/** What must be true after every single step. */
async function expectInvariants(): Promise<void> {
  const rows = await database.query<{ id: number; status: string; attempts: number; effects: number }>(
    'SELECT m.id, m.status, m.attempts, COUNT(e.message_id) AS effects FROM inbox_message m LEFT JOIN effect e ON e.message_id = m.id GROUP BY m.id, m.status, m.attempts',
  );
  for (const row of rows) {
    if (row.effects !== (row.status === 'success' ? 1 : 0)) throw new Error(`P2: ${JSON.stringify(row)}`);
    if (row.attempts > maxRetry + 1) throw new Error(`P6: ${JSON.stringify(row)}`);
  }
  if (rows.filter((row) => row.status === 'processing').length > 1)
    throw new Error(`P4: two messages of a lane in work: ${JSON.stringify(rows)}`);
}

/** A fresh owner comes and does what is left. */
async function expectEverythingEnds(world: World): Promise<void> {
  const last: Owner = { name: 'last', lease: null, work: null };
  await world.passTime();
  await world.take(last);
  for (let round = 0; round < 30; round++) {
    await world.claim(last);
    await world.succeed(last);
  }
  await expectInvariants();
  const open = await database.query("SELECT id, status FROM inbox_message WHERE status NOT IN ('success', 'failed')");
  if (open.length > 0) throw new Error(`P2: left behind: ${JSON.stringify(open)}`);
}

function property(stores: () => Stores, steps: readonly Step[0][] = crashes) {
  return fc.asyncProperty(plansOf(steps), async (plan) => {
    for (const name of [
      'inbox_message',
      'inbox_message_archive',
      'replay_item',
      'replay_run',
      'effect',
      'mailroom_lease',
    ])
      await database.query(`DELETE FROM ${name}`);
    for (let n = 0; n < 3; n++) {
      await database.query(
        "INSERT INTO inbox_message (source, type, open_entity, body, status, next_attempt_at) VALUES ('test', 'work', 7, '{}', 'pending', UTC_TIMESTAMP(3))",
      );
    }
    const world = new World(stores());
    for (const [what, index] of plan) {
      const owner = world.owners[index] as Owner;
      await world[what](owner);
      await expectInvariants();
    }
    await expectEverythingEnds(world);
  });
}

const seed = Number(process.env.MODEL_SEED ?? 20_261_201);

test('however claims, stalls and takeovers interleave, effects happen once and everything ends', async () => {
  await fc.assert(property(realStores, [...crashes, 'replay']), { numRuns: runs, seed });
}, 600_000);

/** Writes outcomes for whoever asks, as a status column without a token does. */
class TokenlessStore extends LaneStore {
  override complete(send: Send, lease: Lease, completion: Completion, next: ClaimRequest | null): Promise<number> {
    const blind: Send = (sql, values) =>
      send(sql.replace('AND m.claim_token = ?', '').replace('AND l.fence = ? AND l.owner = ?', ''), [
        values[0],
        ...values.slice(3, -1),
      ]) as Promise<StatementResult>;
    return super.complete(blind, lease, completion, next);
  }
}

test.each<[string, () => Stores, readonly Step[0][]]>([
  ['without token and fence', () => ({ ...realStores(), lanes: new TokenlessStore(pool, table) }), crashes],
  ['whose takeover does not recover', () => ({ ...realStores(), recoversAtTakeover: false }), crashes],
  [
    'whose replay does not look where a message stands',
    () => ({
      ...realStores(),
      replay: async () => {
        await database.query("UPDATE inbox_message SET status = 'pending', attempts = 0, claim_token = NULL");
      },
    }),
    [...crashes, 'replay'],
  ],
])(
  'a store %s fails the model',
  async (_what, stores, steps) => {
    const result = await fc.check(property(stores, steps), { numRuns: 300, seed, endOnFailure: true });
    expect(result.failed).toBe(true);
    expect(String(result.errorInstance)).toMatch(/P[2346]:/);
  },
  600_000,
);
