// The reference application as its users run it: processes of their own, real HTTP, a real database and Redis. Every
// route, what bad input is answered with, and what its environment does at start-up.
import { createHmac, randomBytes } from 'node:crypto';
import { type Child, startChild } from '../support/child.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { startPrivateDatabase } from '../support/private-database.js';
import { startPrivateRedis } from '../support/redis.js';
import { waitUntil } from '../support/wait-until.js';

// The build, as `npm start` runs it: `npm test` builds before.
const script = new URL('../../dist/src/reference-app/main.js', import.meta.url);
const ordersSecret = `whsec_${randomBytes(24).toString('base64')}`;
const githubSecret = randomBytes(24).toString('hex');

interface RunningApp {
  readonly child: Child;
  readonly url: string;
}

/** Nothing of the test run's own environment steers the application, but what is given here. */
const launch = (env: Readonly<Record<string, string>>) =>
  startChild(script, {
    env: {
      DATABASE_URL: '',
      REDIS_URL: '',
      PORT: '0',
      LEASE_BACKEND: '',
      INBOX_ROUND_INTERVAL_MS: '100',
      INBOX_BACKOFF_SECONDS: '0',
      SHUTDOWN_READINESS_DELAY_MS: '0',
      ...env,
    },
  });

async function listening(child: Child): Promise<RunningApp> {
  const line = await child.line('"listening"', 40_000);
  return { child, url: (JSON.parse(line) as { url: string }).url };
}

const secrets = { ORDERS_SECRET: ordersSecret, GITHUB_SECRET: githubSecret };

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: unknown;
}

async function ask(app: RunningApp, path: string, init: RequestInit = {}): Promise<Answer> {
  const response = await fetch(new URL(path, app.url), { ...init, signal: AbortSignal.timeout(10_000) });
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: text === '' ? null : JSON.parse(text) };
}

interface Signing {
  readonly id?: string;
  readonly secret?: string;
  readonly changes?: Readonly<Record<string, string>>;
}

function pushOrders(app: RunningApp, payload: unknown, { id, secret = ordersSecret, changes = {} }: Signing = {}) {
  const body = typeof payload === 'string' ? payload : JSON.stringify(payload);
  const webhookId = id ?? `msg_${randomBytes(8).toString('hex')}`;
  const timestamp = String(Math.floor(Date.now() / 1000));
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  const signature = createHmac('sha256', key).update(`${webhookId}.${timestamp}.${body}`).digest('base64');
  const headers = { 'webhook-id': webhookId, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}` };
  return ask(app, '/webhooks/orders', { method: 'POST', headers: { ...headers, ...changes }, body });
}

function pushGithub(app: RunningApp, headers: Readonly<Record<string, string>>, secret = githubSecret) {
  const body = '{"zen":"Keep it logically awesome."}';
  const signature = `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`;
  return ask(app, '/webhooks/github', {
    method: 'POST',
    headers: { 'x-hub-signature-256': signature, ...headers },
    body,
  });
}

let events = 0;
const event = (orderId: string, type: string, more: object = {}) => ({
  eventId: `evt-${++events}`,
  orderId,
  type,
  occurredAt: '2026-01-01T00:00:00Z',
  amount: 1_200,
  ...more,
});

const stored = { id: expect.stringMatching(/^\d+$/), duplicate: false, status: 'stored' };

describe('two instances on one database', () => {
  let database: TestDatabase;
  let app: RunningApp;
  let other: RunningApp;

  beforeAll(async () => {
    database = await createTestDatabase('reference_app');
    const env = { ...secrets, DATABASE_URL: database.url, MIGRATE: 'true', SIMULATE: 'true', OUTBOX_ENABLED: 'true' };
    // Both at once on an empty database: one runs the migrations, the other waits for it.
    [app, other] = await Promise.all([listening(launch(env)), listening(launch(env))]);
  });
  afterAll(async () => {
    await Promise.all([app?.child.kill(), other?.child.kill()]);
    await database.drop();
  });

  const rows = async () => (await database.query<{ n: number }>('SELECT COUNT(*) AS n FROM inbox_message'))[0]?.n;
  const order = async (id: string) => (await ask(other, `/orders/${id}`)).body;
  const handled = (id: unknown) =>
    waitUntil(
      async () =>
        (
          await database.query<{ status: string; attempts: number; error_kind: string | null }>(
            "SELECT status, attempts, error_kind FROM inbox_message WHERE id = ? AND status IN ('success', 'failed')",
            [id],
          )
        )[0],
      { what: `message ${id} is finished` },
    );
  const idOf = ({ body }: Answer) => (body as { id: string }).id;

  test('a signed order event is stored before the answer, handled, and seen at GET /orders/:id', async () => {
    const answer = await pushOrders(app, event('o-1', 'order.created'));
    expect(answer).toMatchObject({ status: 200, body: stored });
    expect(await handled(idOf(answer))).toMatchObject({ status: 'success', attempts: 1 });
    expect(await order('o-1')).toMatchObject({
      orderId: 'o-1',
      status: 'created',
      amount: 1_200,
      appliedEvents: 1,
      ignoredEvents: 0,
      updatedAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
    });
  });

  test('the same event again, at the other instance and in another push, is a duplicate and applied once', async () => {
    const created = event('o-2', 'order.created');
    const first = await pushOrders(app, created);
    const again = await pushOrders(other, created);
    expect(again.body).toEqual({ id: idOf(first), duplicate: true, status: 'duplicate' });
    await handled(idOf(first));
    expect(await order('o-2')).toMatchObject({ appliedEvents: 1, ignoredEvents: 0 });
  });

  test('a list of events is answered with a list of receipts and handled in its order', async () => {
    const types = ['order.created', 'order.paid', 'order.shipped', 'order.completed'];
    const answer = await pushOrders(
      app,
      types.map((type) => event('o-3', type)),
    );
    expect(answer).toMatchObject({ status: 200, body: [stored, stored, stored, stored] });
    for (const { id } of answer.body as { id: string }[]) await handled(id);
    expect(await order('o-3')).toMatchObject({ status: 'completed', appliedEvents: 4, ignoredEvents: 0 });
  });

  test('an event that the order does not allow is a success, ignored and counted', async () => {
    await pushOrders(app, event('o-4', 'order.created'));
    const answer = await pushOrders(app, event('o-4', 'order.shipped'));
    expect(await handled(idOf(answer))).toMatchObject({ status: 'success' });
    expect(await order('o-4')).toMatchObject({ status: 'created', appliedEvents: 1, ignoredEvents: 1 });
  });

  test('the id of the webhook stands for an event without an id', async () => {
    const { eventId: _, ...anonymous } = event('o-5', 'order.created');
    const first = await pushOrders(app, anonymous, { id: 'msg_anonymous' });
    const again = await pushOrders(app, anonymous, { id: 'msg_anonymous' });
    expect(again.body).toEqual({ id: idOf(first), duplicate: true, status: 'duplicate' });
  });

  test('a failure is tried again, a permanent one is not', async () => {
    const once = await pushOrders(app, event('o-6', 'order.created', { simulate: { failTimes: 1 } }));
    const never = await pushOrders(app, event('o-7', 'order.created', { simulate: { permanent: true } }));
    expect(await handled(idOf(once))).toMatchObject({ status: 'success', attempts: 2 });
    expect(await handled(idOf(never))).toMatchObject({ status: 'failed', attempts: 1, error_kind: 'simulated' });
    expect((await ask(app, '/orders/o-7')).status).toBe(404);
  });

  test('GitHub events are counted by type, each delivery once', async () => {
    const push = (delivery: string) => pushGithub(app, { 'x-github-event': 'star', 'x-github-delivery': delivery });
    const answers = [await push('d-1'), await push('d-2'), await push('d-1')];
    expect(answers.map(({ body }) => (body as { duplicate: boolean }).duplicate)).toEqual([false, false, true]);
    for (const answer of answers) await handled(idOf(answer));
    expect(await database.query("SELECT events FROM demo_github_event WHERE type = 'star'")).toEqual([{ events: 2 }]);
  });

  test.each([
    ['without a delivery id', { 'x-github-event': 'star' }],
    ['with two delivery ids', { 'x-github-event': 'star', 'x-github-delivery': 'd-8, d-9' }],
    ['without a type', { 'x-github-delivery': 'd-8' }],
  ])('a GitHub webhook %s is answered 400 and not stored', async (_what, headers) => {
    const before = await rows();
    expect((await pushGithub(app, headers)).status).toBe(400);
    expect(await rows()).toBe(before);
  });

  const otherSecret = `whsec_${randomBytes(24).toString('base64')}`;
  test.each<[string, () => Promise<Answer>, number]>([
    [
      'an order signed with another secret',
      () => pushOrders(app, event('x', 'order.created'), { secret: otherSecret }),
      401,
    ],
    [
      'an unsigned order',
      () => pushOrders(app, event('x', 'order.created'), { changes: { 'webhook-signature': '' } }),
      401,
    ],
    ['an unsigned list that is no JSON', () => pushOrders(app, '[', { changes: { 'webhook-signature': '' } }), 401],
    [
      'a GitHub webhook signed with another secret',
      () => pushGithub(app, { 'x-github-event': 'star', 'x-github-delivery': 'd-7' }, 'x'.repeat(20)),
      401,
    ],
    [
      'a GitHub webhook without a signature',
      () => pushGithub(app, { 'x-github-event': 'star', 'x-github-delivery': 'd-7', 'x-hub-signature-256': '' }),
      401,
    ],
    ['a body over the limit', () => pushOrders(app, 'x'.repeat(1_048_577)), 413],
    ['a body that is no JSON', () => pushOrders(app, 'orderId=1'), 400],
    ['a type that no order has', () => pushOrders(app, event('x', 'order.lost')), 400],
    ['an event without an order', () => pushOrders(app, { ...event('x', 'order.paid'), orderId: '' }), 400],
    ['a list with one bad event', () => pushOrders(app, [event('x', 'order.created'), { type: 'order.paid' }]), 400],
    [
      'a list with an event that has no id',
      () => pushOrders(app, [{ ...event('x', 'order.created'), eventId: undefined }]),
      400,
    ],
  ])('%s is refused and nothing is stored', async (_what, push, status) => {
    const before = await rows();
    expect((await push()).status).toBe(status);
    expect(await rows()).toBe(before);
  });

  test('an order that was never pushed is 404, and so is a path that does not exist', async () => {
    expect((await ask(app, '/orders/nobody')).status).toBe(404);
    expect((await ask(app, '/nowhere')).status).toBe(404);
    expect((await ask(app, '/webhooks/nowhere', { method: 'POST', body: '{}' })).status).toBe(404);
  });

  test('both are live and ready', async () => {
    expect(await ask(app, '/health/live')).toMatchObject({ status: 200, body: { status: 'ok' } });
    const details = { inbox: { status: 'up' }, database: { status: 'up' } };
    expect(await ask(other, '/health/ready')).toMatchObject({ status: 200, body: { status: 'ok', details } });
  });

  test('the log is JSON, warns about a variable without effect, and holds no secret and no payload', async () => {
    const marker = `marker-${randomBytes(8).toString('hex')}`;
    await handled(idOf(await pushOrders(app, event('o-8', 'order.created', { note: marker }))));
    await pushOrders(app, event('x', 'order.created', { note: marker }), { secret: otherSecret });
    const log = app.child.stdout + app.child.stderr;
    for (const line of app.child.stdout.trim().split('\n')) expect(() => JSON.parse(line)).not.toThrow();
    expect(log).toContain('OUTBOX_ENABLED has no effect yet');
    for (const hidden of [marker, ordersSecret, ordersSecret.slice(6), githubSecret]) expect(log).not.toContain(hidden);
  });
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
      const created = event('o-1', 'order.created');
      // It sleeps so that the database goes away before it is done.
      const earlier = await pushOrders(app, event('o-0', 'order.created', { simulate: { sleepMs: 2_000 } }));
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
      expect(await pushOrders(app, event('o-1', 'order.created'))).toMatchObject({ status: 200, body: stored });
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
      expect(answer.body).toMatchObject({ details: { inbox: { status: 'down', reason: 'draining' } } });
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
      const answer = await pushOrders(app, event('o-slow', 'order.created', { simulate: { sleepMs: 3_000 } }));
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
    const child = launch({ DATABASE_URL: database.url, MIGRATE: 'true', ORDERS_SECRET: ordersSecret });
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
    for (const hidden of ['hunter2', ordersSecret.slice(6), githubSecret, badBase64])
      expect(child.stdout + child.stderr).not.toContain(hidden);
  });
});
