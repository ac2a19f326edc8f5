// The lease contract, for both backends on real servers: one holder, a rising fence, an end that comes before it can be
// somebody else's, and no exception for anything that is normal.
import { DataSource } from 'typeorm';
import { ControlPool } from '../../../src/database/index.js';
import {
  type Gate,
  type Lease,
  LeaseKeeper,
  type LeaseLoss,
  LeaseRowStore,
  openGate,
  RedisGate,
} from '../../../src/lease/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { opened } from '../../support/open-resources.js';
import type { PrivateServer } from '../../support/private-server.js';
import { startPrivateRedis } from '../../support/redis.js';
import { waitUntil } from '../../support/wait-until.js';

let database: TestDatabase;
let dataSource: DataSource;
let pool: ControlPool;
let redis: PrivateServer;
const gates: Gate[] = [];
const leases: Lease[] = [];
const rejections: unknown[] = [];
const noteRejection = (reason: unknown) => rejections.push(reason);

beforeAll(async () => {
  process.on('unhandledRejection', noteRejection);
  database = await migrated(await createTestDatabase('lease'));
  dataSource = await new DataSource(database.options).initialize();
  pool = new ControlPool(dataSource, { size: 6 });
  redis = await startPrivateRedis();
});
afterEach(async () => {
  for (const lease of leases.splice(0)) await lease.release();
  for (const gate of gates.splice(0)) await gate.close();
  await database.query('DELETE FROM mailroom_lease');
  expect(rejections.splice(0)).toEqual([]);
});
afterAll(async () => {
  process.off('unhandledRejection', noteRejection);
  await pool.close();
  await dataSource.destroy();
  await redis.remove();
  await database.drop();
});

type Backend = 'database' | 'redis';
const backends: Backend[] = ['database', 'redis'];

async function gateOf(backend: Backend): Promise<Gate> {
  if (backend === 'database') return openGate;
  const gate = await RedisGate.open({ redis: [redis.url], namespace: database.name, onError: () => undefined });
  gates.push(gate);
  await waitUntil(() => gate.isAvailable(), { what: 'the client is connected' });
  return gate;
}

interface KeeperOptions {
  readonly ttlMs?: number;
  readonly renewMs?: number;
  readonly now?: () => number;
}

async function keeperOf(
  backend: Backend,
  owner: string,
  { ttlMs = 5_000, renewMs = 1_500, now }: KeeperOptions = {},
): Promise<LeaseKeeper> {
  return new LeaseKeeper(await gateOf(backend), new LeaseRowStore(pool), owner, { ttlMs, renewMs }, now);
}

interface Held {
  readonly lease: Lease;
  readonly lost: LeaseLoss[];
  readonly renewals: number[];
}

async function take(keeper: LeaseKeeper, name: string, maxHoldMs = 60_000): Promise<Held | null> {
  const lost: LeaseLoss[] = [];
  const renewals: number[] = [];
  const entrance = await keeper.enter(name);
  const lease = await entrance?.take({
    maxHoldMs,
    observer: {
      lost: (_lease, reason) => lost.push(reason),
      renewed: (_lease, tookMs) => void renewals.push(tookMs),
    },
  });
  if (!lease) return null;
  leases.push(lease);
  return { lease, lost, renewals };
}

async function mustTake(keeper: LeaseKeeper, name: string, maxHoldMs?: number): Promise<Held> {
  const held = await take(keeper, name, maxHoldMs);
  if (!held) throw new Error(`lease ${name} is not free`);
  return held;
}

const row = async (name: string) =>
  (
    await database.query<{ owner: string | null; fence: number; held: number }>(
      'SELECT owner, fence, held_until > UTC_TIMESTAMP(3) AS held FROM mailroom_lease WHERE name = ?',
      [name],
    )
  )[0];

describe.each(backends)('backend %s', (backend) => {
  test('of many that ask at once, also for the very first time, exactly one gets the lease; the others get null', async () => {
    const keepers = await Promise.all(Array.from({ length: 8 }, (_, n) => keeperOf(backend, `owner-${n}`)));
    const held = await Promise.all(keepers.map((keeper) => take(keeper, 'a')));
    expect(held.filter((one) => one !== null)).toHaveLength(1);
  });

  test('the fence rises with every holder, and a released lease is free at once', async () => {
    const [a, b] = [await keeperOf(backend, 'a'), await keeperOf(backend, 'b')];
    const first = await mustTake(a, 'f');
    expect(await take(b, 'f')).toBeNull();
    await first.lease.release();
    const second = await mustTake(b, 'f');
    expect(BigInt(second.lease.fence)).toBe(BigInt(first.lease.fence) + 1n);
    expect(first.lease.isHeld()).toBe(false);
    expect(await row('f')).toMatchObject({ owner: 'b', held: 1 });
  });

  test('a held lease is renewed for as long as it is needed', async () => {
    const a = await keeperOf(backend, 'a', { ttlMs: 1_200, renewMs: 200 });
    const b = await keeperOf(backend, 'b');
    const held = await mustTake(a, 'r');
    await waitUntil(() => held.renewals.length >= 8, { what: 'it was renewed past its first end' });
    expect(held.lease.isHeld()).toBe(true);
    expect(await take(b, 'r')).toBeNull();
    expect(held.lost).toEqual([]);
  });

  test('renewal ends at the hold limit, so that a holder that never ends cannot keep the lane', async () => {
    const a = await keeperOf(backend, 'a', { ttlMs: 900, renewMs: 150 });
    const b = await keeperOf(backend, 'b');
    const held = await mustTake(a, 'h', 1_200);
    await waitUntil(() => held.lease.signal.aborted, { what: 'the signal aborted' });
    expect(held.lost).toEqual(['hold-limit']);
    await waitUntil(() => take(b, 'h'), { what: 'another holder has it' });
  });

  test('the signal aborts before another can have the lease, when no renewal gets through', async () => {
    const a = await keeperOf(backend, 'a', { ttlMs: 1_500, renewMs: 10_000 });
    const held = await mustTake(a, 's');
    await waitUntil(() => held.lease.signal.aborted, { what: 'the signal aborted' });
    expect(await row('s')).toMatchObject({ owner: 'a', held: 1 });
    expect(held.lost).toEqual(['expired']);
  });

  test('a blocked event loop cannot make an ended lease look held: clocks are compared in the call', async () => {
    let skew = 0;
    const a = await keeperOf(backend, 'a', { ttlMs: 30_000, renewMs: 9_000, now: () => performance.now() + skew });
    const held = await mustTake(a, 'c');
    expect(held.lease.isHeld()).toBe(true);
    skew = 30_000;
    expect(held.lease.isHeld()).toBe(false);
    expect(held.lease.signal.aborted).toBe(true);
  });

  test('a holder that finds the row taken by another knows that it lost', async () => {
    const a = await keeperOf(backend, 'a', { ttlMs: 3_000, renewMs: 100 });
    const held = await mustTake(a, 't');
    await database.query("UPDATE mailroom_lease SET owner = 'thief', fence = fence + 1 WHERE name = 't'");
    await waitUntil(() => held.lease.signal.aborted, { what: 'the loss was noticed' });
    expect(held.lost).toEqual(['taken']);
    await held.lease.release();
    expect(await row('t')).toMatchObject({ owner: 'thief' });
  });

  test('a row that is locked by a commit under way is not waited for', async () => {
    const keeper = await keeperOf(backend, 'a');
    await (await mustTake(keeper, 'l')).lease.release();
    const runner = dataSource.createQueryRunner();
    await runner.startTransaction();
    await runner.query("SELECT * FROM mailroom_lease WHERE name = 'l' FOR UPDATE");
    const startedAt = performance.now();
    expect(await take(keeper, 'l')).toBeNull();
    // NOWAIT: far below the lock wait timeout of one second.
    expect(performance.now() - startedAt).toBeLessThan(900);
    await runner.rollbackTransaction();
    await runner.release();
    expect(await take(keeper, 'l')).not.toBeNull();
  });
});

describe('the gate in Redis', () => {
  const key = (name: string) => `${database.name}:lease:${name}`;

  async function client(work: (run: (...args: string[]) => Promise<unknown>) => Promise<unknown>): Promise<void> {
    const { Redis } = await import('ioredis');
    const connection = new Redis(redis.url);
    const closed = opened({ what: 'a Redis client', close: async () => connection.disconnect() });
    try {
      await work((command, ...args) => connection.call(command as string, ...args));
    } finally {
      connection.disconnect();
      closed();
    }
  }

  test('a key that was deleted by hand is noticed as a loss, and never made again over another holder', async () => {
    const a = await keeperOf('redis', 'a', { ttlMs: 6_000, renewMs: 100 });
    const held = await mustTake(a, 'd');
    await client(async (run) => {
      await run('DEL', key('d'));
      await run('SET', key('d'), 'another', 'PX', '5000');
    });
    await waitUntil(() => held.lease.signal.aborted, { what: 'the loss was noticed' });
    expect(held.lost).toEqual(['taken']);
    await held.lease.release();
    await client(async (run) => {
      expect(await run('GET', key('d'))).toBe('another');
    });
  });

  test('SCRIPT FLUSH in between changes nothing', async () => {
    const a = await keeperOf('redis', 'a', { ttlMs: 3_000, renewMs: 100 });
    const held = await mustTake(a, 'x');
    await client(async (run) => {
      await run('SCRIPT', 'FLUSH');
    });
    const before = held.renewals.length;
    await waitUntil(() => held.renewals.length >= before + 3, { what: 'renewals go on' });
    await client(async (run) => {
      await run('SCRIPT', 'FLUSH');
    });
    await held.lease.release();
    expect(await take(a, 'x')).not.toBeNull();
  });

  test('a renewal without a majority takes no key away: what is left runs out by itself', async () => {
    // Three databases of one server stand for three servers.
    const urls = ['/0', '/1', '/2'].map((path) => new URL(path, redis.url).href);
    const gate = await RedisGate.open({ redis: urls, namespace: database.name, onError: () => undefined });
    gates.push(gate);
    await waitUntil(() => gate.isAvailable(), { what: 'the clients are connected' });
    const pass = await waitUntil(() => gate.enter('m', 20_000), { what: 'the gate lets in' });
    await client(async (run) => {
      for (const db of ['1', '2']) {
        await run('SELECT', db);
        await run('DEL', key('m'));
      }
      expect(await pass.renew(20_000)).toBe('lost');
      await run('SELECT', '0');
      expect(await run('EXISTS', key('m'))).toBe(1);
    });
    await pass.leave();
  });

  test('a frozen Redis: the lease ends by itself, nothing is thrown, and it works again afterwards', async () => {
    const a = await keeperOf('redis', 'a', { ttlMs: 3_000, renewMs: 300 });
    const held = await mustTake(a, 'z');
    redis.pause();
    try {
      await waitUntil(() => held.lease.signal.aborted, { what: 'the lease was given up' });
      expect(held.lost).toEqual(['expired']);
      expect(await take(a, 'z')).toBeNull();
    } finally {
      redis.resume();
    }
    await held.lease.release();
    await waitUntil(() => take(a, 'z'), { what: 'leases work again', timeoutMs: 15_000 });
  });

  test('a Redis that restarts empty: at most one holder, and leases work again', async () => {
    const a = await keeperOf('redis', 'a', { ttlMs: 2_500, renewMs: 200 });
    const b = await keeperOf('redis', 'b', { ttlMs: 2_500, renewMs: 200 });
    const held = await mustTake(a, 'e');
    await redis.kill();
    await redis.start();
    const next = await waitUntil(() => take(b, 'e'), { what: 'the other one has it', timeoutMs: 20_000 });
    expect(held.lease.isHeld()).toBe(false);
    expect(BigInt(next.lease.fence)).toBe(BigInt(held.lease.fence) + 1n);
  });

  test('with Redis gone nobody enters, and nothing is thrown', async () => {
    const a = await keeperOf('redis', 'a');
    await redis.kill();
    await waitUntil(async () => (await a.enter('g')) === null && !a.isAvailable(), { what: 'the gate is closed' });
    await redis.start();
    await waitUntil(() => take(a, 'g'), { what: 'it is open again', timeoutMs: 20_000 });
  });
});
