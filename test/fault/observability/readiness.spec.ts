// Every reason of readiness produced for real and seen by an HTTP client of the reference application, within 5 s of it, and
// gone by itself: a process of its own, a database and a Redis that are stopped and started again.
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { startPrivateDatabase } from '../../support/private-database.js';
import type { PrivateServer } from '../../support/private-server.js';
import { startPrivateRedis } from '../../support/redis.js';
import { ask, launch, listening, pushOrders, type RunningApp, secrets } from '../../support/reference-app.js';
import { waitUntil } from '../../support/wait-until.js';

let server: PrivateServer;
let redis: PrivateServer;
let database: TestDatabase;
let app: RunningApp;

beforeAll(async () => {
  server = await startPrivateDatabase('like-the-tests');
  redis = await startPrivateRedis();
  database = await migrated(await createTestDatabase('readiness', { serverUrl: server.url }));
  app = await listening(
    launch({
      ...secrets,
      DATABASE_URL: database.url,
      REDIS_URL: redis.url,
      MIGRATE: 'true',
      SIMULATE: 'true',
      SHUTDOWN_READINESS_DELAY_MS: '3000',
    }),
  );
}, 60_000);
afterAll(async () => {
  await app?.child.kill();
  await database.drop();
  await redis.remove();
  await server.remove();
});

interface Check {
  readonly status: string;
  readonly reason?: string;
}

const seconds: Record<string, number> = {};

/** Asks until the check has the status; the HTTP status that came with it. */
async function seen(check: string, status: string): Promise<number> {
  const startedAt = performance.now();
  const answer = await waitUntil(
    async () => {
      const { status: http, body } = await ask(app, '/health/ready').catch(() => ({ status: 0, body: null }));
      const { details } = (body ?? {}) as { details?: Record<string, Check> };
      return details?.[check]?.status === status && { http };
    },
    { what: `${check} is ${status}`, timeoutMs: 30_000 },
  );
  seconds[`${check} ${status}`] = Math.round(performance.now() - startedAt) / 1_000;
  return answer.http;
}

test('a stopped database is 503, and up again by itself', async () => {
  expect(await seen('database', 'up')).toBe(200);
  await server.kill();
  expect(await seen('database', 'down')).toBe(503);
  await server.start();
  expect(await seen('database', 'up')).toBe(200);
});

test('a stopped Redis is degraded, and up again by itself', async () => {
  await redis.kill();
  expect(await seen('redis', 'degraded')).toBe(200);
  await redis.start();
  await seen('redis', 'up');
});

test('a backlog over the limit is degraded until it is gone', async () => {
  const digits =
    '(SELECT 0 AS n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9)';
  await database.query(
    `INSERT INTO inbox_message (source, type, body, next_attempt_at)
     SELECT 'orders', 'order.paid', '{}', UTC_TIMESTAMP(3) + INTERVAL 1 DAY FROM ${digits} a, ${digits} b, ${digits} c, ${digits} d`,
  );
  expect(await seen('backlog', 'degraded')).toBe(200);
  await database.query('DELETE FROM inbox_message WHERE next_attempt_at > UTC_TIMESTAMP(3) ');
  await seen('backlog', 'up');
});

test('an event loop that a handler blocks answers nobody, is told afterwards, and forgotten', async () => {
  const occurredAt = new Date().toISOString();
  const order = { eventId: 'e1', orderId: 'o1', type: 'order.created', occurredAt, amount: 1 };
  const pushed = await pushOrders(app, { ...order, simulate: { blockLoopMs: 2_000 } });
  expect(pushed.status).toBe(200);
  await seen('loop', 'degraded');
  await seen('loop', 'up');
});

test('an instance that stops is draining from the first moment', async () => {
  app.child.signal('SIGTERM');
  expect(await seen('draining', 'down')).toBe(503);
  expect((await app.child.ended).code).toBe(0);
  console.info(seconds);
});
