// Holders that stand still: frozen processes, blocked event loops, Redis that is emptied or gone.
import type { InboxOptions } from '../../../src/index.js';
import type { Child } from '../../support/child.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import {
  allTerminal,
  createEffectTables,
  startInstance,
  statusCounts,
  storeMessages,
  wrongEffects,
} from '../../support/inbox-fleet.js';
import type { PrivateServer } from '../../support/private-server.js';
import { startPrivateRedis } from '../../support/redis.js';
import { waitUntil } from '../../support/wait-until.js';

let database: TestDatabase;
let redis: PrivateServer;
const children: Child[] = [];

beforeAll(async () => {
  database = await migrated(await createTestDatabase('stall'));
  await createEffectTables(database);
  redis = await startPrivateRedis();
});
afterEach(async () => {
  for (const child of children) {
    // Whatever a test did to it, it must not have died of a rejection that nobody handled.
    expect(child.stdout).not.toContain('unhandledRejection');
    child.signal('SIGCONT');
    await child.kill();
  }
  children.length = 0;
  for (const table of ['inbox_message', 'effect', 'profile', 'mailroom_lease', 'mailroom_instance'])
    await database.query(`DELETE FROM ${table}`);
});
afterAll(async () => {
  await redis.remove();
  await database.drop();
});

type Backend = 'database' | 'redis';

const lease = (backend: Backend, ttl: number): Partial<InboxOptions> => ({
  lease: { backend, ttl, ...(backend === 'redis' ? { redis: redis.url } : {}) },
});

async function start(name: string, inbox: Partial<InboxOptions>): Promise<Child> {
  const child = await startInstance(database, name, inbox);
  children.push(child);
  return child;
}

const profiles = () =>
  database.query<{ external_id: string; n: number }>(
    'SELECT external_id, COUNT(*) AS n FROM profile GROUP BY external_id',
  );

describe.each<Backend>(['database', 'redis'])('backend %s', (backend) => {
  test('a holder that is frozen in a handler and wakes up after a takeover changes nothing', async () => {
    await storeMessages(database, [
      { entity: 'a', sleepMs: 400 },
      ...Array.from({ length: 8 }, (_, n) => ({ entity: `e${n % 3}` })),
    ]);
    const frozen = await start('frozen', lease(backend, 1_000));
    await frozen.line(/^handling \d+ 1$/);
    frozen.signal('SIGSTOP');
    const other = await start('other', lease(backend, 1_000));
    await allTerminal(database);
    frozen.signal('SIGCONT');
    await frozen.line(/^event (claim-lost|lease-lost)/);
    // It goes on as a living instance: what comes next is handled once, by whoever holds the lane.
    await storeMessages(
      database,
      Array.from({ length: 5 }, (_, n) => ({ entity: `late${n}` })),
    );
    await allTerminal(database);
    expect(await statusCounts(database)).toEqual({ success: 14 });
    expect(await wrongEffects(database)).toEqual([]);
    expect(other.stdout).toContain('event recovered');
  });

  test('frozen between its check and its insert, with a duplicate handled meanwhile: one profile', async () => {
    await storeMessages(database, [{ profile: 'ada' }, { profile: 'ada' }, { profile: 'ada' }]);
    const frozen = await start('frozen', lease(backend, 1_000));
    await frozen.line('checked ada 0');
    frozen.signal('SIGSTOP');
    await start('other', lease(backend, 1_000));
    await allTerminal(database);
    frozen.signal('SIGCONT');
    await frozen.line(/^event (claim-lost|lease-lost)/);
    expect(await statusCounts(database)).toEqual({ success: 3 });
    expect(await profiles()).toEqual([{ external_id: 'ada', n: 1 }]);
  });

  test('a handler that blocks the event loop past the lease loses it, and nothing is applied twice', async () => {
    await storeMessages(database, [
      { entity: 'a', blockMs: 3_000 },
      ...Array.from({ length: 5 }, () => ({ entity: 'b' })),
    ]);
    const blocked = await start('blocked', { ...lease(backend, 1_000), maxRetry: 20 });
    await blocked.line(/^handling \d+ 1$/);
    const other = await start('other', { ...lease(backend, 1_000), maxRetry: 20 });
    await blocked.line(/^event lease-lost/);
    // Each holder in turn blocks past its lease; a longer lease at last lets it through.
    const patient = await start('patient', { ...lease(backend, 10_000), maxRetry: 20 });
    await Promise.all([blocked, other].map((child) => child.kill()));
    await allTerminal(database);
    expect(await statusCounts(database)).toEqual({ success: 6 });
    expect(await wrongEffects(database)).toEqual([]);
    expect(patient.stdout).toContain('handled');
  });

  test('a handler that never ends does not hold its lane', async () => {
    await storeMessages(database, [
      { entity: 'a', hang: true },
      ...Array.from({ length: 6 }, (_, n) => ({ entity: `e${n}` })),
    ]);
    const child = await start('a', { ...lease(backend, 1_500), handlerTimeout: 300, maxRetry: 1 });
    await child.line(/^handling \d+ 1$/);
    await waitUntil(async () => (await statusCounts(database)).success === 6, { what: 'the others are handled' });
    await allTerminal(database);
    expect(await statusCounts(database)).toEqual({ success: 6, failed: 1 });
    expect(await wrongEffects(database)).toEqual([]);
  });
});

describe('Redis in trouble while messages flow', () => {
  const options = () => ({ ...lease('redis', 1_500), maxRetry: 20 });

  test.each<[string, () => Promise<void>]>([
    [
      'restarts empty',
      async () => {
        await redis.kill();
        await redis.start();
      },
    ],
    [
      'is gone for a while',
      async () => {
        await redis.kill();
        await waitUntil(async () => (await heldLanes()) === 0, { what: 'no lane is held any more', timeoutMs: 20_000 });
        await redis.start();
      },
    ],
  ])('%s: no instance ends, nothing is applied twice, work goes on alone', async (_what, trouble) => {
    await storeMessages(
      database,
      Array.from({ length: 150 }, (_, n) => ({ entity: `e${n % 11}`, sleepMs: 10 })),
    );
    const fleet = [await start('a', options()), await start('b', options())];
    await waitUntil(async () => ((await statusCounts(database)).success ?? 0) > 10, { what: 'messages flow' });
    await trouble();
    await allTerminal(database, 60_000);
    expect(await statusCounts(database)).toEqual({ success: 150 });
    expect(await wrongEffects(database)).toEqual([]);
    for (const child of fleet) expect(await Promise.race([child.ended, Promise.resolve('alive')])).toBe('alive');
  });

  const heldLanes = async () =>
    (
      await database.query<{ n: number }>(
        'SELECT COUNT(*) AS n FROM mailroom_lease WHERE held_until > UTC_TIMESTAMP(3)',
      )
    )[0]?.n;
});
