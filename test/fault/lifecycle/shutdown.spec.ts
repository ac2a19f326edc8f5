// How an application with every module ends: processes of their own, stopped while a handler and a send are in work, with
// servers that are away or stand still, with clients that keep their connections, and when the start failed.

import { randomBytes } from 'node:crypto';
import { Agent, get, request } from 'node:http';
import { type Child, startChild } from '../../support/child.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { createEffectTables, wrongEffects } from '../../support/inbox-fleet.js';
import { type PrivateDatabase, startPrivateDatabase } from '../../support/private-database.js';
import { startPrivateRedis } from '../../support/redis.js';
import { waitUntil } from '../../support/wait-until.js';

const script = new URL('../../support/fixtures/stopping-instance.ts', import.meta.url);
const children: Child[] = [];

interface Instance {
  readonly child: Child;
  readonly url: string;
}

function launch(database: TestDatabase, env: Readonly<Record<string, string>> = {}): Child {
  const child = startChild(script, { env: { DATABASE_URL: database.url, ...env } });
  children.push(child);
  return child;
}

async function start(database: TestDatabase, env: Readonly<Record<string, string>> = {}): Promise<Instance> {
  const child = launch(database, env);
  const line = await child.line('ready ', 60_000);
  return { child, url: line.slice('ready '.length) };
}

async function push({ url }: Instance, body: object): Promise<string> {
  const response = await fetch(`${url}/in`, { method: 'POST', body: JSON.stringify(body) });
  expect(response.status).toBe(200);
  return ((await response.json()) as { id: string }).id;
}

const statuses = (database: TestDatabase) =>
  database.query<{ status: string; attempts: number; claim_token: Buffer | null }>(
    'SELECT status, attempts, claim_token FROM inbox_message ORDER BY id',
  );
const sends = (database: TestDatabase) =>
  database.query<{ status: string; attempts: number }>('SELECT status, attempts FROM outbox_message ORDER BY id');

async function prepared(name: string, serverUrl?: string): Promise<TestDatabase> {
  const made = await migrated(await createTestDatabase(name, serverUrl ? { serverUrl } : {}));
  await createEffectTables(made);
  return made;
}

/** Ends in time: the budget, and what a loaded machine adds, but not a second budget. */
async function endsWithin(child: Child, ms: number): Promise<void> {
  await waitUntil(async () => (await Promise.race([child.ended, Promise.resolve(null)])) !== null, {
    what: `the process is gone within ${ms} ms`,
    timeoutMs: ms,
  }).catch((error: Error) => {
    throw new Error(`${error.message}; it printed:\n${child.stdout}\n${child.stderr}`);
  });
}

/** In whatever order it prints them. */
const printed = (child: Child, what: string | RegExp) =>
  waitUntil(() => child.stdout.search(what) >= 0, { what: `it prints ${what}`, timeoutMs: 30_000 });

let database: TestDatabase;
beforeAll(async () => {
  database = await prepared('shutdown');
});
afterEach(async () => {
  for (const child of children.splice(0)) {
    expect(child.stdout).not.toContain('unhandledRejection');
    await child.kill();
  }
  for (const table of ['inbox_message', 'outbox_message', 'mailroom_lease', 'effect'])
    await database.query(`DELETE FROM ${table}`);
});
afterAll(() => database.drop());

test.each([
  ['typeorm-first', 'close', 'express'],
  ['typeorm-last', 'close twice', 'fastify'],
])(
  "C115 modules imported %s, '%s' on %s: handler and send finish before the database closes, the process ends by itself",
  async (order, command, adapter) => {
    const app = await start(database, { ORDER: order, ADAPTER: adapter });
    await push(app, { id: 'a', sleepMs: 600 });
    app.child.send('send {"sleepMs":600}');
    await printed(app.child, 'handling ');
    await printed(app.child, 'sending ');
    app.child.send(command);
    expect(await app.child.ended).toEqual({ code: 0, signal: null });
    expect(app.child.stdout).toMatch(/handled \d+[\s\S]*closed/);
    expect(app.child.stdout).toMatch(/sent \S+[\s\S]*closed/);
    expect(app.child.stdout).not.toContain('left ');
    expect(app.child.stderr).toBe('');
    expect(await statuses(database)).toEqual([{ status: 'success', attempts: 1, claim_token: null }]);
    expect(await sends(database)).toEqual([{ status: 'sent', attempts: 1 }]);
    const held = 'SELECT name FROM mailroom_lease WHERE held_until > UTC_TIMESTAMP(3)';
    expect(await database.query(held)).toEqual([]);
  },
);

test('C119 a handler and a send that never end are given back within one deadline, uncounted, and done after the restart', async () => {
  const times = { INBOX: JSON.stringify({ shutdown: { deadline: '4s' } }), OUTBOX_DEADLINE: '4s' };
  const app = await start(database, times);
  await push(app, { id: 'a', hang: true });
  app.child.send('send {"hang":true}');
  await printed(app.child, 'handling ');
  await printed(app.child, 'sending ');
  app.child.signal('SIGTERM');
  await endsWithin(app.child, 7_000);
  expect(await app.child.ended).toEqual({ code: null, signal: 'SIGTERM' });
  expect(await statuses(database)).toEqual([{ status: 'pending', attempts: 0, claim_token: null }]);
  expect(await sends(database)).toEqual([{ status: 'pending', attempts: 0 }]);
  await database.query(`UPDATE inbox_message SET body = '{"id":"a"}'`);
  await database.query(`UPDATE outbox_message SET payload = '{}'`);
  const next = await start(database, times);
  await printed(next.child, 'handled ');
  await printed(next.child, 'sent ');
  next.child.signal('SIGTERM');
  await next.child.ended;
  expect(await statuses(database)).toEqual([{ status: 'success', attempts: 1, claim_token: null }]);
  expect(await sends(database)).toEqual([{ status: 'sent', attempts: 1 }]);
  expect(await wrongEffects(database)).toEqual([]);
});

test('a second SIGTERM, and a SIGINT, change nothing: what is in work is finished', async () => {
  const app = await start(database);
  await push(app, { id: 'a', sleepMs: 1_500 });
  await printed(app.child, 'handling ');
  for (const signal of ['SIGTERM', 'SIGTERM', 'SIGINT', 'SIGTERM'] as const) app.child.signal(signal);
  expect(await app.child.ended).toMatchObject({ code: null });
  expect(app.child.stdout).toContain('handled ');
  expect(await statuses(database)).toEqual([{ status: 'success', attempts: 1, claim_token: null }]);
});

describe.each(['express', 'fastify'])('clients that keep their connections, on %s', (adapter) => {
  test('readiness is 503 first while pushes are taken, answers end their connection, then pushes are answered 503', async () => {
    const app = await start(database, {
      ADAPTER: adapter,
      INBOX: JSON.stringify({ shutdown: { readinessDelay: '2s', deadline: '10s' } }),
    });
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    try {
      const before = await answerOf(`${app.url}/in`, agent, '{"id":"a"}');
      expect(before).toMatchObject({ status: 200, connection: 'keep-alive' });
      await push(app, { id: 'b', sleepMs: 4_000 });
      await printed(app.child, /handling [\s\S]*handling /);
      app.child.signal('SIGTERM');
      const ready = async () =>
        ((await (await fetch(`${app.url}/ready`)).json()) as { mailroom: { status: string } }).mailroom;
      await waitUntil(async () => (await ready()).status === 'down', { what: 'readiness says down' });
      const during = await answerOf(`${app.url}/in`, agent, '{"id":"c"}');
      expect(during).toMatchObject({ status: 200, connection: 'close' });
      const refused = await waitUntil(
        async () => {
          const answer = await answerOf(`${app.url}/in`, agent, '{"id":"d"}');
          return answer.status === 503 && answer;
        },
        { what: 'pushes are answered 503' },
      );
      expect(refused).toMatchObject({ connection: 'close' });
      await app.child.ended;
      expect(app.child.stdout.match(/handled /g)?.length).toBeGreaterThanOrEqual(2);
    } finally {
      agent.destroy();
    }
  });

  test('a request without an answer and one without an end are cut off at the deadline', async () => {
    const app = await start(database, {
      ADAPTER: adapter,
      INBOX: JSON.stringify({ shutdown: { deadline: '2s' } }),
      OUTBOX_DEADLINE: '2s',
    });
    const broken: string[] = [];
    const never = get(`${app.url}/never`).on('error', () => broken.push('never'));
    await printed(app.child, 'never');
    const trickling = request(`${app.url}/in`, { method: 'POST', headers: { 'content-length': 100 } });
    trickling.on('error', () => broken.push('trickling')).on('response', () => broken.push('trickling'));
    trickling.write('{"id":');
    await push(app, { id: 'a' });
    app.child.signal('SIGTERM');
    expect(await app.child.ended).toEqual({ code: null, signal: 'SIGTERM' });
    await waitUntil(() => broken.length === 2, { what: 'both are cut off' });
    never.destroy();
    trickling.destroy();
  });
});

describe.each(['stopped', 'frozen'] as const)('with a Redis that is %s', (state) => {
  test('the message in work is finished or given back, and the process ends in time', async () => {
    const redis = await startPrivateRedis();
    try {
      const app = await start(database, { REDIS_URL: redis.url });
      await push(app, { id: 'a', sleepMs: 1_000 });
      await printed(app.child, 'handling ');
      if (state === 'stopped') await redis.stop();
      else redis.pause();
      app.child.send('close');
      await endsWithin(app.child, 14_000);
      expect(await app.child.ended).toEqual({ code: 0, signal: null });
      expect(app.child.stdout).not.toContain('left ');
      expect(await statuses(database)).toEqual([{ status: 'success', attempts: 1, claim_token: null }]);
    } finally {
      await redis.remove();
    }
  });
});

describe('with a database that is away', () => {
  let server: PrivateDatabase;
  let own: TestDatabase;
  beforeAll(async () => {
    server = await startPrivateDatabase('like-the-tests');
    own = await prepared('shutdown_away', server.url);
  });
  afterAll(async () => {
    await own.drop().catch(() => undefined);
    await server.remove();
  });

  test.each(['stopped', 'frozen'])(
    '%s: the process ends within the deadline, the message is done after the restart',
    async (state) => {
      const env = {
        INBOX: JSON.stringify({ shutdown: { deadline: '5s' }, lease: { ttl: '3s' } }),
        OUTBOX_DEADLINE: '5s',
      };
      const app = await start(own, env);
      await push(app, { id: randomBytes(4).toString('hex'), sleepMs: 1_000 });
      app.child.send('send {"sleepMs":1000}');
      await printed(app.child, 'handling ');
      await printed(app.child, 'sending ');
      if (state === 'stopped') await server.kill();
      else server.pause();
      app.child.signal('SIGTERM');
      await endsWithin(app.child, 9_000);
      expect(await app.child.ended).toEqual({ code: null, signal: 'SIGTERM' });
      if (state === 'stopped') await server.start();
      else server.resume();
      const next = await start(own, env);
      await waitUntil(async () => (await statuses(own)).every(({ status }) => status === 'success'), {
        what: 'the message is a success',
        timeoutMs: 30_000,
      });
      expect(await wrongEffects(own)).toEqual([]);
      await next.child.kill();
    },
  );
});

describe('a start that is not finished', () => {
  test.each(['init', 'bootstrap'])(
    'failed in %s: closing leaves nothing, the process ends by itself',
    async (where) => {
      const redis = await startPrivateRedis();
      try {
        const child = launch(database, { FAIL: where, REDIS_URL: redis.url });
        await child.line('failed start-up fails', 60_000);
        expect(await child.ended).toEqual({ code: 0, signal: null });
        expect(child.stdout).not.toContain('left ');
      } finally {
        await redis.remove();
      }
    },
  );

  test.each(['typeorm-first', 'typeorm-last'])(
    'a SIGTERM in the middle of it starts no consumer, and the process ends (%s)',
    async (order) => {
      await database.query(
        `INSERT INTO inbox_message (source, type, body, received_at) VALUES ('test', 'work', '{"sleepMs":60000}', UTC_TIMESTAMP(3))`,
      );
      const child = launch(database, { FAIL: 'slow', ORDER: order });
      await child.line('starting', 60_000);
      child.signal('SIGTERM');
      await endsWithin(child, 15_000);
      const [row] = await statuses(database);
      expect(row).toMatchObject({ status: 'pending', attempts: 0 });
    },
  );
});

function answerOf(url: string, agent: Agent, body: string): Promise<{ status?: number; connection?: string }> {
  return new Promise((resolve, reject) => {
    const sent = request(
      url,
      { agent, method: 'POST', headers: { 'content-length': Buffer.byteLength(body) } },
      (response) => {
        response
          .resume()
          .on('end', () =>
            resolve({ status: response.statusCode ?? 0, connection: response.headers.connection ?? '' }),
          );
      },
    );
    sent.on('error', reject);
    sent.end(body);
  });
}
