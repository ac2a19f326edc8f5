// The reference application as its operators run it: processes of their own on servers that go away, its start and its
// stop, and what a wrong environment is answered with.
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { startPrivateDatabase } from '../support/private-database.js';
import { startPrivateRedis } from '../support/redis.js';
import {
  ask,
  launch,
  listening,
  orderEvent,
  pushGithub,
  pushOrders,
  type RunningApp,
  secrets,
  stored,
} from '../support/reference-app.js';
import { waitUntil } from '../support/wait-until.js';

test('its log has one line for each outcome, with the trace of the push, and no phone number', async () => {
  const database = await createTestDatabase('reference_app_log');
  const child = launch({ ...secrets, DATABASE_URL: database.url, MIGRATE: 'true', LOG_SAMPLE_RATE: '1' });
  try {
    const app = await listening(child);
    const phone = '13800138000';
    const msgStr = JSON.stringify({ externalId: phone, name: 'Ada', phone });
    const answer = await ask(app, '/push', {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-request-id': 'request-1' },
      body: JSON.stringify({ msgType: 1008, msgStr }),
    });
    expect(answer).toMatchObject({ status: 200, body: stored });
    const expected = { traceId: 'request-1', messageId: (answer.body as { id: string }).id, context: 'Mailroom' };
    expect(JSON.parse(await child.line('"event":"stored"'))).toMatchObject({ ...expected, status: 'pending' });
    expect(JSON.parse(await child.line('"event":"succeeded"', 20_000))).toMatchObject({
      ...expected,
      status: 'success',
      attempt: 1,
      durationMs: expect.any(Number),
    });
    expect(child.stdout).not.toContain(phone);
  } finally {
    await child.kill();
    await database.drop();
  }
});

describe('on servers that go away', () => {
  test('pushes are answered 503 with Retry-After while the database is down, and taken again without a restart', async () => {
    const server = await startPrivateDatabase();
    const database = await createTestDatabase('reference_app_down', { serverUrl: server.url });
    const child = launch({
      ...secrets,
      DATABASE_URL: database.url,
      MIGRATE: 'true',
      SIMULATE: 'true',
      LEASE_TTL_MS: '2000',
      INBOX_RECOVERY_INTERVAL_MS: '500',
    });
    try {
      const app = await listening(child);
      const created = orderEvent('o-1', 'order.created');
      // It sleeps so that the database goes away before it is done.
      const earlier = await pushOrders(app, orderEvent('o-0', 'order.created', { simulate: { sleepMs: 2_000 } }));
      expect(earlier).toMatchObject({ status: 200, body: stored });
      await server.kill();
      const refused = await pushOrders(app, created);
      expect(refused.status).toBe(503);
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
      expect(await ask(app, '/health/ready')).toMatchObject({ status: 503, body: { status: 'error' } });
      expect((await ask(app, '/health/live')).status).toBe(200);
      await server.start();
      const taken = await waitUntil(
        async () => {
          const answer = await pushOrders(app, created);
          return answer.status === 200 && answer;
        },
        { what: 'a push is taken again', timeoutMs: 20_000 },
      );
      expect(taken.body).toMatchObject({ status: 'stored' });
      for (const order of ['o-0', 'o-1']) {
        const shown = await waitUntil(
          async () => {
            const answer = await ask(app, `/orders/${order}`);
            return answer.status === 200 && answer;
          },
          { what: `order ${order} is handled`, timeoutMs: 20_000 },
        );
        expect(shown.body).toMatchObject({ status: 'created', appliedEvents: 1, ignoredEvents: 0 });
      }
      expect((await ask(app, '/health/ready')).status).toBe(200);
    } finally {
      await child.kill();
      await database.drop().catch(() => undefined);
      await server.remove();
    }
  });

  test('without Redis the instance is degraded and takes pushes; it says so and recovers by itself', async () => {
    const redis = await startPrivateRedis();
    const database = await createTestDatabase('reference_app_redis');
    const child = launch({ ...secrets, DATABASE_URL: database.url, REDIS_URL: redis.url, MIGRATE: 'true' });
    const readiness = (app: RunningApp, status: string) =>
      waitUntil(
        async () => {
          const answer = await ask(app, '/health/ready');
          return (answer.body as { status: string }).status === status && answer;
        },
        { what: `readiness is ${status}`, timeoutMs: 15_000 },
      );
    try {
      const app = await listening(child);
      expect(await readiness(app, 'ok')).toMatchObject({ status: 200, body: { details: { redis: { status: 'up' } } } });
      await redis.stop();
      expect(await readiness(app, 'degraded')).toMatchObject({
        status: 200,
        body: { details: { redis: { status: 'degraded' } } },
      });
      expect(await pushOrders(app, orderEvent('o-1', 'order.created'))).toMatchObject({ status: 200, body: stored });
      await redis.start();
      await readiness(app, 'ok');
    } finally {
      await child.kill();
      await database.drop();
      await redis.remove();
    }
  });
});

describe('start and stop', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase('reference_app_start');
  });
  afterAll(() => database.drop());

  test('SIGTERM makes it unready while it still answers, then it ends', async () => {
    const child = launch({
      ...secrets,
      DATABASE_URL: database.url,
      MIGRATE: 'true',
      SHUTDOWN_READINESS_DELAY_MS: '3000',
    });
    try {
      const app = await listening(child);
      child.signal('SIGTERM');
      const answer = await waitUntil(
        async () => {
          const seen = await ask(app, '/health/ready');
          return seen.status === 503 && seen;
        },
        { what: 'readiness is 503' },
      );
      expect(answer.body).toMatchObject({ details: { draining: { status: 'down', reason: 'draining' } } });
      expect(await child.ended).toEqual({ code: 0, signal: null });
    } finally {
      await child.kill();
    }
  });

  test('SIGTERM, even twice, lets a handler finish: its message is a success before the process ends with code 0', async () => {
    const child = launch({
      ...secrets,
      DATABASE_URL: database.url,
      MIGRATE: 'true',
      SIMULATE: 'true',
      SHUTDOWN_READINESS_DELAY_MS: '1000',
    });
    const messageOf = async (id: string) =>
      (
        await database.query<{ status: string; attempts: number }>(
          'SELECT status, attempts FROM inbox_message WHERE id = ?',
          [id],
        )
      )[0];
    try {
      const app = await listening(child);
      const answer = await pushOrders(app, orderEvent('o-slow', 'order.created', { simulate: { sleepMs: 3_000 } }));
      const { id } = answer.body as { id: string };
      await waitUntil(async () => (await messageOf(id))?.status === 'processing', { what: 'the handler runs' });
      child.signal('SIGTERM');
      await waitUntil(async () => (await ask(app, '/health/ready')).status === 503, {
        what: 'readiness is 503 while it still answers',
        timeoutMs: 900,
      });
      expect(await messageOf(id)).toEqual({ status: 'processing', attempts: 1 });
      child.signal('SIGTERM');
      expect(await child.ended).toEqual({ code: 0, signal: null });
      expect(await messageOf(id)).toEqual({ status: 'success', attempts: 1 });
    } finally {
      await child.kill();
    }
  });

  test('a source without its secret is not mounted, and a warning says so', async () => {
    const child = launch({ DATABASE_URL: database.url, MIGRATE: 'true', ORDERS_SECRET: secrets.ORDERS_SECRET });
    try {
      const app = await listening(child);
      const push = await pushGithub(app, { 'x-github-event': 'star', 'x-github-delivery': 'd-1' });
      expect(push.status).toBe(404);
      expect(child.stdout).toContain('GITHUB_SECRET is not set: its webhook is not mounted');
      expect(child.stdout).not.toContain('ORDERS_SECRET is not set');
    } finally {
      await child.kill();
    }
  });

  const badBase64 = `whsec_${'!'.repeat(24)}`;
  test.each<[string, Record<string, string>, string]>([
    ['no database', { DATABASE_URL: '' }, 'DATABASE_URL: is not set; write a URL such as mysql://'],
    ['a database of another kind', { DATABASE_URL: 'postgres://u:hunter2@h/d' }, 'DATABASE_URL: write a URL such as'],
    ['a lane count of 0', { INBOX_LANES: '0' }, 'INBOX_LANES: write 1 or more'],
    ['a flag that is none', { MIGRATE: 'yes' }, "MIGRATE: write 'true' or 'false'"],
    ['leases in a Redis that is not named', { LEASE_BACKEND: 'redis' }, 'REDIS_URL: is not set'],
    ['a secret that is no key', { MIGRATE: 'true', ORDERS_SECRET: badBase64 }, 'standardWebhooks.secrets[0]'],
    ['a secret that is too short', { GITHUB_SECRET: 'hunter2' }, 'GITHUB_SECRET: write a secret of 16 characters'],
    ['a port that is no number', { PORT: 'hunter2' }, 'PORT: write a whole number from 0 to 65535'],
    ['a negative backoff', { INBOX_BACKOFF_SECONDS: '-1' }, 'INBOX_BACKOFF_SECONDS: write seconds'],
  ])('%s stops the start-up with code 1 and one line that says what to write', async (_what, changes, message) => {
    const child = launch({ ...secrets, DATABASE_URL: database.url, ...changes });
    expect(await child.ended).toEqual({ code: 1, signal: null });
    expect(child.stderr.trim().split('\n')).toEqual([expect.stringContaining(message)]);
    for (const hidden of ['hunter2', secrets.ORDERS_SECRET.slice(6), secrets.GITHUB_SECRET, badBase64])
      expect(child.stdout + child.stderr).not.toContain(hidden);
  });
});
