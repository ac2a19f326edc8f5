// C129 and each reason of readiness that a server of the test's own, a full table or a stop can produce.
import { HealthCheckService, TerminusModule } from '@nestjs/terminus';
import { Test } from '@nestjs/testing';
import { TypeOrmModule } from '@nestjs/typeorm';
import {
  type HealthOptions,
  InboxModule,
  type InboxOptions,
  InboxService,
  MailroomEvents,
  MailroomHealthIndicator,
  MailroomHealthModule,
} from '../../../src/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { type PrivateDatabase, startPrivateDatabase } from '../../support/private-database.js';
import { startPrivateRedis } from '../../support/redis.js';
import { waitUntil } from '../../support/wait-until.js';

let server: PrivateDatabase;
let database: TestDatabase;
const open: { close(): Promise<void> }[] = [];

beforeAll(async () => {
  server = await startPrivateDatabase('like-the-tests');
  database = await migrated(await createTestDatabase('health', { serverUrl: server.url }));
});
afterEach(async () => {
  for (const app of open.splice(0)) await app.close();
  await database.query('DELETE FROM inbox_message');
});
afterAll(async () => {
  await database.drop();
  await server.remove();
});

async function boot(health: HealthOptions = {}, inbox: Partial<InboxOptions> = {}) {
  const app = await Test.createTestingModule({
    imports: [
      TypeOrmModule.forRoot({ ...database.options, retryAttempts: 0 }),
      InboxModule.forRoot({
        shutdown: { readinessDelay: 0 },
        sources: { test: { type: (push) => push.json.type } },
        ...inbox,
      }),
      MailroomHealthModule.forRoot({ keepFor: 0, ...health }),
      TerminusModule,
    ],
  }).compile();
  app.useLogger(false);
  await app.init();
  open.push(app);
  return { app, health: app.get(MailroomHealthIndicator) };
}

const until = (indicator: MailroomHealthIndicator, status: string) =>
  waitUntil(
    async () => {
      const { mailroom } = await indicator.ready();
      return mailroom.status === status && mailroom;
    },
    { what: `readiness is ${status}`, timeoutMs: 15_000 },
  );

test('C129 a frozen database is down within the timeout, however many ask, and liveness stays up', async () => {
  const { health } = await boot({ timeout: 300 });
  expect((await until(health, 'up')).checks.database).toEqual({ status: 'up' });
  server.pause();
  try {
    expect((await until(health, 'down')).checks.database).toMatchObject({
      status: 'down',
      reason: 'no answer within 300 ms',
    });
    const answers = await Promise.all(Array.from({ length: 100 }, () => health.ready()));
    expect(new Set(answers.map(({ mailroom }) => mailroom.status))).toEqual(new Set(['down']));
    expect((await health.live()).mailroom.status).toBe('up');
  } finally {
    server.resume();
  }
  await until(health, 'up');
  const [held] = await database.query<{ n: number }>(
    "SELECT COUNT(*) AS n FROM information_schema.processlist WHERE info LIKE 'INSERT INTO mailroom_setting%'",
  );
  expect(held?.n).toBeLessThanOrEqual(1);
});

test('a database that only reads is down, and up again by itself', async () => {
  const { health } = await boot();
  await until(health, 'up');
  // A reader that answers every SELECT: the table alone takes no writes.
  await database.query('RENAME TABLE mailroom_setting TO elsewhere');
  try {
    expect((await until(health, 'down')).checks.database).toMatchObject({ reason: 'not writable' });
  } finally {
    await database.query('RENAME TABLE elsewhere TO mailroom_setting');
  }
  await until(health, 'up');
});

test('Redis away is degraded, or down where the option says so', async () => {
  const redis = await startPrivateRedis();
  try {
    const lease = { backend: 'redis', redis: redis.url } as const;
    const usual = await boot({}, { lease });
    const strict = await boot({ severity: { redis: 'down' } }, { lease });
    await until(usual.health, 'up');
    await redis.stop();
    expect((await until(usual.health, 'degraded')).checks.redis).toMatchObject({ status: 'degraded' });
    await until(strict.health, 'down');
    await redis.start();
    await until(usual.health, 'up');
    for (const app of open.splice(0)) await app.close();
  } finally {
    await redis.remove();
  }
});

test('too many messages and one that is due for too long are degraded until they are gone', async () => {
  const { app, health } = await boot({ maxBacklog: 2, maxOldestDue: 1 });
  await until(health, 'up');
  for (const type of ['a', 'b']) await app.get(InboxService).receive('test', { rawBody: JSON.stringify({ type }) });
  await database.query("UPDATE inbox_message SET next_attempt_at = '2020-01-01'");
  expect((await until(health, 'degraded')).checks).toMatchObject({
    backlog: { status: 'degraded', box: 'inbox', waiting: 2, maxBacklog: 2 },
    oldestDue: { status: 'degraded', box: 'inbox' },
  });
  await database.query('DELETE FROM inbox_message');
  await until(health, 'up');
});

test('many pushes answered 503, and an open breaker, are degraded', async () => {
  const { app, health } = await boot();
  const events = app.get(MailroomEvents);
  for (let n = 0; n < 20; n++) events.emit({ name: 'refused', source: 'test', refusal: 'unavailable' });
  events.emit({ name: 'breaker', source: 'test', type: 'a', state: 'open' });
  expect((await until(health, 'degraded')).checks).toMatchObject({
    intake: { status: 'degraded', pushes: 20, refused: 20 },
    breaker: { status: 'degraded', open: ['test/a'] },
  });
});

test('an instance that stops is draining', async () => {
  const { app, health } = await boot();
  await until(health, 'up');
  await app.close();
  expect((await health.ready()).mailroom.checks.draining).toEqual({ status: 'down', reason: 'draining' });
});

test('@nestjs/terminus takes the results as they are', async () => {
  const { app, health } = await boot({ maxBacklog: 1 });
  const terminus = await app.resolve(HealthCheckService);
  expect(await terminus.check([() => health.ready()])).toMatchObject({ status: 'ok' });
  await app.get(InboxService).receive('test', { rawBody: '{"type":"a"}' });
  await until(health, 'degraded');
  expect(await terminus.check([() => health.ready()])).toMatchObject({ status: 'degraded' });
  const strict = await boot({ maxBacklog: 1, severity: { backlog: 'down' } });
  await expect(terminus.check([() => strict.health.ready()])).rejects.toMatchObject({ status: 503 });
});
