// CASES: lease-loss and redis-outage, on a Redis of this file's own. Long form: MESSAGES=500.
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { Redis } from 'ioredis';
import { readEnvironment } from '../../../src/reference-app/environment.js';
import { RedisCheck } from '../../../src/reference-app/health/redis-check.js';
import { drainInbox } from '../../../src/testing/index.js';
import type { Child } from '../../support/child.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { type InboxApp, pushJson, startInboxApp } from '../../support/inbox-app.js';
import {
  allTerminal,
  createEffectTables,
  overlappingTurns,
  startInstance,
  statusCounts,
  storeMessages,
  wrongEffects,
} from '../../support/inbox-fleet.js';
import { opened } from '../../support/open-resources.js';
import type { PrivateServer } from '../../support/private-server.js';
import { startPrivateRedis } from '../../support/redis.js';
import { waitUntil } from '../../support/wait-until.js';

let database: TestDatabase;
let redis: PrivateServer;
let client: Redis;
const children: Child[] = [];
const apps: InboxApp[] = [];

beforeAll(async () => {
  database = await migrated(await createTestDatabase('cases_redis'));
  await createEffectTables(database);
  redis = await startPrivateRedis();
  client = new Redis(redis.url);
  client.on('error', () => undefined);
});
afterEach(async () => {
  for (const child of children.splice(0)) {
    expect(child.stdout).not.toContain('unhandledRejection');
    await child.kill();
  }
  await Promise.all(apps.splice(0).map((app) => app.close()));
  for (const table of ['inbox_message', 'effect', 'turn', 'mailroom_lease', 'mailroom_instance'])
    await database.query(`DELETE FROM ${table}`);
});
afterAll(async () => {
  client.disconnect();
  await redis.remove();
  await database.drop();
});

async function start(name: string, lease: object): Promise<Child> {
  const child = await startInstance(database, name, {
    maxRetry: 20,
    lease: { backend: 'redis', redis: redis.url, ...lease },
  });
  children.push(child);
  return child;
}

const handled = async () => (await statusCounts(database)).success ?? 0;

test('C5 the key of the lane is deleted five times while messages flow at three instances: each is handled once, by one holder at a time', async () => {
  const total = Number(process.env.MESSAGES ?? 200);
  await storeMessages(
    database,
    Array.from({ length: total }, (_, n) => ({ entity: `e${n % 23}`, turn: true, sleepMs: 2 })),
  );
  await Promise.all(['a', 'b', 'c'].map((name) => start(name, { ttl: 2_000 })));
  for (let deleted = 0; deleted < 5; deleted++) {
    const before = await handled();
    await waitUntil(async () => (await handled()) >= Math.min(total, before + 10), {
      what: 'some progress',
      timeoutMs: 40_000,
    });
    for (const key of await client.keys('*:lease:inbox:lane:*')) await client.del(key);
  }
  await allTerminal(database, 80_000);
  expect(await statusCounts(database)).toEqual({ success: total });
  expect(await wrongEffects(database)).toEqual([]);
  expect(await overlappingTurns(database)).toEqual([]);
});

test('C9 a handler of three times the lease, with a Redis that answers after 300 ms and now and then after a second: no lease is lost', async () => {
  const slow = await slowServer(redis.port, (answer) => (answer % 8 === 7 ? 1_000 : 300));
  try {
    const app = await startInboxApp(database, {
      inbox: {
        handlerTimeout: '60s',
        lease: { backend: 'redis', redis: `redis://127.0.0.1:${slow.port}`, ttl: 6_000, renew: 500 },
      },
      handlers: {
        long: async () => {
          const end = performance.now() + 18_000;
          await waitUntil(() => performance.now() >= end, { what: 'it is done', timeoutMs: 60_000 });
        },
      },
    });
    apps.push(app);
    await pushJson(app.inbox, { type: 'long' });
    await waitUntil(async () => (await app.inbox.runOnce())[0] !== 'unavailable', {
      what: 'the lane is had',
      timeoutMs: 60_000,
    });
    expect(await statusCounts(database)).toEqual({ success: 1 });
    expect(app.events('lease-lost', 'claim-lost')).toEqual([]);
    const renewals = app.events('lease-renewed');
    expect(renewals.length).toBeGreaterThan(5);
    expect(Math.min(...renewals.map(({ tookMs }) => tookMs))).toBeGreaterThanOrEqual(290);
    expect(app.events('lease-renewal-failed').length).toBeGreaterThan(0);
  } finally {
    await Promise.all(apps.splice(0).map((app) => app.close()));
    await slow.close();
  }
});

test('C11 the Redis becomes a replica and a primary again: pushes are stored, nothing is handled meanwhile, and leases work again without a restart', async () => {
  const other = await startPrivateRedis();
  const check = new RedisCheck(
    readEnvironment({ DATABASE_URL: database.url, REDIS_URL: redis.url, LEASE_BACKEND: 'redis' }),
  );
  try {
    const app = await startInboxApp(database, {
      inbox: { lease: { backend: 'redis', redis: redis.url, ttl: 2_000 } },
      handlers: { any: () => undefined },
    });
    apps.push(app);
    await pushJson(app.inbox, { type: 'any' });
    await waitUntil(async () => (await check.isUp()) === true, { what: 'the probe says up' });
    await waitUntil(
      async () => {
        await drainInbox(app.inbox);
        return (await handled()) === 1;
      },
      { what: 'the first one is handled' },
    );

    await client.replicaof('127.0.0.1', other.port);
    await pushJson(app.inbox, { type: 'any' });
    expect(await app.inbox.runOnce()).toEqual(['unavailable']);
    await waitUntil(async () => (await check.isUp()) === false, { what: 'the probe says degraded' });
    expect(await statusCounts(database)).toEqual({ success: 1, pending: 1 });

    await client.replicaof('NO', 'ONE');
    await waitUntil(
      async () => {
        await app.inbox.runOnce();
        return (await handled()) === 2;
      },
      { what: 'it is handled', timeoutMs: 30_000 },
    );
    await waitUntil(async () => (await check.isUp()) === true, { what: 'the probe says up again', timeoutMs: 30_000 });
  } finally {
    check.onModuleDestroy();
    await client.replicaof('NO', 'ONE');
    await other.remove();
  }
});

test('C15 with Redis gone one client tries to connect at a bounded pace, however many pushes come in', async () => {
  let attempts = 0;
  const gone = createServer((socket) => {
    attempts++;
    socket.destroy();
  });
  await new Promise<void>((resolve) => gone.listen(0, '127.0.0.1', resolve));
  const startedAt = performance.now();
  const app = await startInboxApp(database, {
    inbox: {
      enabled: true,
      tick: 10,
      roundInterval: 10,
      lease: { backend: 'redis', redis: `redis://127.0.0.1:${(gone.address() as AddressInfo).port}` },
    },
    handlers: { any: () => undefined },
  });
  apps.push(app);
  for (let n = 0; n < 20; n++)
    await Promise.all(Array.from({ length: 100 }, () => pushJson(app.inbox, { type: 'any' })));
  await waitUntil(() => attempts >= 5, { what: 'it keeps trying', timeoutMs: 30_000 });
  // A pause of 100 ms after the first, and longer ones later.
  expect(attempts).toBeLessThanOrEqual(2 + (performance.now() - startedAt) / 100);
  expect(await statusCounts(database)).toEqual({ pending: 2_000 });
  await Promise.all(apps.splice(0).map((one) => one.close()));
  await new Promise((resolve) => gone.close(resolve));
});

/** Passes connections on; each answer of the server comes `delayMs(n)` later, in order. */
async function slowServer(port: number, delayMs: (answer: number) => number) {
  const sockets = new Set<Socket>();
  const timers = new Set<NodeJS.Timeout>();
  let answers = 0;
  const server = createServer((from) => {
    const to = connect(port, '127.0.0.1');
    let lastAt = 0;
    from.pipe(to);
    to.on('data', (bytes) => {
      const now = performance.now();
      lastAt = Math.max(lastAt, now + delayMs(answers++));
      const timer = setTimeout(() => {
        timers.delete(timer);
        if (!from.destroyed) from.write(bytes);
      }, lastAt - now);
      timers.add(timer);
    });
    for (const [one, two] of [
      [from, to],
      [to, from],
    ] as const) {
      sockets.add(one);
      one.on('error', () => two.destroy());
      one.on('close', () => {
        sockets.delete(one);
        two.destroy();
      });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = async () => {
    for (const timer of timers) clearTimeout(timer);
    for (const socket of sockets) socket.destroy();
    await new Promise<void>((resolve) => server.close(() => resolve()));
    closed();
  };
  const closed = opened({ what: 'a slow server', close });
  return { port: (server.address() as AddressInfo).port, close };
}
