// Redis that stands still while messages flow. Long form: FREEZE_MS=60000.
import type { Child } from '../../support/child.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import {
  allTerminal,
  createEffectTables,
  overlappingTurns,
  startInstance,
  statusCounts,
  storeMessages,
  wrongEffects,
} from '../../support/inbox-fleet.js';
import type { PrivateServer } from '../../support/private-server.js';
import { startPrivateRedis } from '../../support/redis.js';
import { waitUntil } from '../../support/wait-until.js';

const freezeMs = Number(process.env.FREEZE_MS ?? 6_000);
/** So often that a renewal which does not get through leaves time for another one: it is not the deadline alone that ends it. */
const renew = 300;
const ttl = 3_000;
const lanes = 2;

let database: TestDatabase;
let redis: PrivateServer;
const children: Child[] = [];

beforeAll(async () => {
  database = await migrated(await createTestDatabase('redis_frozen'));
  await createEffectTables(database);
  redis = await startPrivateRedis();
});
afterAll(async () => {
  for (const child of children) await child.kill();
  await redis.remove();
  await database.drop();
});

const handled = async () => (await statusCounts(database)).success ?? 0;
const heldLanes = () =>
  database.query<{ owner: string }>(
    "SELECT owner FROM mailroom_lease WHERE name LIKE 'inbox:lane:%' AND held_until > UTC_TIMESTAMP(3)",
  );

let stored = 0;
async function arrive(count: number): Promise<void> {
  const bodies = Array.from({ length: count }, (_, n) => ({
    entity: `e${(stored + n) % 11}`,
    sleepMs: 10,
    turn: true,
  }));
  stored += count;
  await storeMessages(database, bodies, lanes);
}

test(
  `Redis is frozen for ${freezeMs} ms: every lane has one holder or none, no instance ends, and work goes on alone`,
  async () => {
    // Rounds that would not end by themselves while Redis is frozen: it is the lease that ends them.
    const lease = { backend: 'redis', ttl, renew, redis: redis.url } as const;
    const inbox = { lanes, lease, maxRetry: 20, batchSize: 1_000 };
    await arrive(200);
    children.push(...(await Promise.all(['a', 'b'].map((name) => startInstance(database, name, inbox)))));
    const holders = async () => new Set((await heldLanes()).map(({ owner }) => owner)).size;
    await waitUntil(
      async () => {
        // A quick machine must not be through with them before the lanes are shared.
        if ((await handled()) > stored - 100) await arrive(100);
        return (await holders()) === 2 && (await handled()) > 0;
      },
      { what: 'messages flow at both instances', timeoutMs: 30_000 },
    );
    redis.pause();
    const thawAt = performance.now() + freezeMs;
    await arrive(200);
    await waitUntil(async () => (await heldLanes()).length === 0, { what: 'no lane is held', timeoutMs: ttl + 10_000 });
    const handledWhenFrozen = await handled();
    expect(handledWhenFrozen).toBeLessThan(stored);
    await waitUntil(
      async () => {
        // What comes meanwhile is stored and waits.
        await arrive(1);
        expect(await heldLanes()).toEqual([]);
        return performance.now() >= thawAt;
      },
      { what: 'Redis was frozen for long enough', timeoutMs: freezeMs + 20_000, intervalMs: 200 },
    );
    expect(await handled()).toBe(handledWhenFrozen);
    redis.resume();
    await allTerminal(database, 100_000);
    expect(await statusCounts(database)).toEqual({ success: stored });
    expect(await wrongEffects(database)).toEqual([]);
    expect(await overlappingTurns(database)).toEqual([]);
    for (const child of children) {
      expect(await Promise.race([child.ended, Promise.resolve('alive')])).toBe('alive');
      expect(child.stdout).not.toContain('unhandledRejection');
    }
  },
  freezeMs + 120_000,
);
