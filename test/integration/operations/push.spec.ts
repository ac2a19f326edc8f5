// The CRM push of the reference application on real HTTP: pushes without an id, one profile per customer, and
// compensation behind the admin token.
import { randomBytes } from 'node:crypto';
import type { INestApplication } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { DataSource } from 'typeorm';
import { runMigrationsExclusively } from '../../../migrations/index.js';
import { InboxService } from '../../../src/index.js';
import { AppModule } from '../../../src/reference-app/app.module.js';
import { demoMigrations } from '../../../src/reference-app/demo-migrations.js';
import { readEnvironment } from '../../../src/reference-app/environment.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';

const token = randomBytes(24).toString('hex');
let database: TestDatabase;
const running: INestApplication[] = [];

beforeAll(async () => {
  database = await migrated(await createTestDatabase('push'));
  const dataSource = await new DataSource({ ...database.options, migrations: [...demoMigrations] }).initialize();
  await runMigrationsExclusively(dataSource);
  await dataSource.destroy();
});
afterEach(async () => {
  for (const app of running.splice(0)) await app.close();
  for (const table of ['inbox_message', 'demo_profile', 'mailroom_lease']) await database.query(`DELETE FROM ${table}`);
});
afterAll(() => database.drop());

/** An application whose lanes are consumed when the test says so. */
async function start(more: Readonly<Record<string, string>> = {}) {
  const environment = readEnvironment({
    DATABASE_URL: database.url,
    INBOX_ENABLED: 'false',
    SIMULATE: 'true',
    SHUTDOWN_READINESS_DELAY_MS: '0',
    ...more,
  });
  const app = await NestFactory.create(AppModule.forEnvironment(environment), { logger: false, rawBody: true });
  running.push(app);
  await app.listen(0, '127.0.0.1');
  const url = await app.getUrl();
  const ask = async (path: string, init: RequestInit = {}) => {
    const response = await fetch(new URL(path, url), { ...init, signal: AbortSignal.timeout(10_000) });
    const text = await response.text();
    return { status: response.status, body: (text === '' ? null : JSON.parse(text)) as unknown };
  };
  const push = (payload: unknown, path = '/push', headers: Record<string, string> = {}) =>
    ask(path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(payload),
    });
  return { inbox: app.get(InboxService), ask, push };
}

const profile = (name: string, more: object = {}) => ({
  msgType: 1008,
  msgStr: JSON.stringify({ externalId: 'c-1', name, phone: '1', ...more }),
});
const admin = { authorization: `Bearer ${token}` };
const stored = async () => (await database.query('SELECT id FROM inbox_message')).length;
const profiles = () => database.query('SELECT external_id, name, merged FROM demo_profile ORDER BY id');

test('pushes without an id end as one profile per customer', async () => {
  const app = await start();
  for (const name of ['a', 'b', 'c'])
    expect(await app.push(profile(name))).toEqual({
      status: 200,
      body: { id: expect.stringMatching(/^\d+$/), duplicate: false, status: 'stored' },
    });
  await app.inbox.runOnce();
  expect(await profiles()).toEqual([{ external_id: 'c-1', name: 'c', merged: 2 }]);
  expect(await app.ask('/profiles/c-1')).toMatchObject({
    status: 200,
    body: { externalId: 'c-1', name: 'c', merged: 2 },
  });
  expect((await app.ask('/profiles/nobody')).status).toBe(404);
});

test('a push of another type or without content is acknowledged and not stored', async () => {
  const app = await start();
  for (const payload of [{ msgType: 1, msgStr: '{}' }, { msgType: 1008, msgStr: '' }, { msgType: 1008 }, {}])
    expect(await app.push(payload)).toEqual({ status: 200, body: { id: null, duplicate: false, status: 'ignored' } });
  expect(await stored()).toBe(0);
});

test('what cannot be read is answered 400 and not stored', async () => {
  const app = await start();
  expect(
    (await app.ask('/push', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{' })).status,
  ).toBe(400);
  expect(await stored()).toBe(0);
});

test('a push that holds no profile ends as failed and is not tried again', async () => {
  const app = await start();
  await app.push({ msgType: 1008, msgStr: '{' });
  await app.inbox.runOnce();
  expect(await database.query('SELECT status, attempts, error_kind FROM inbox_message')).toEqual([
    { status: 'failed', attempts: 1, error_kind: 'undecodable' },
  ]);
});

test('compensation handles a push when it is answered, and stores nothing', async () => {
  const app = await start({ ADMIN_TOKEN: token });
  expect(await app.push(profile('a'), '/push?compensation=true', admin)).toEqual({
    status: 200,
    body: { status: 'executed', messages: 1 },
  });
  expect(await profiles()).toEqual([{ external_id: 'c-1', name: 'a', merged: 0 }]);
  expect(await stored()).toBe(0);
});

test('compensation is closed without the right token, and does not exist when none is set', async () => {
  const app = await start({ ADMIN_TOKEN: token });
  for (const headers of [
    {},
    { authorization: `Bearer ${token}x` },
    { authorization: token },
    { authorization: 'Bearer ' },
  ])
    expect((await app.push(profile('a'), '/push?compensation=true', headers as Record<string, string>)).status).toBe(
      401,
    );
  const closed = await start();
  expect((await closed.push(profile('a'), '/push?compensation=true', admin)).status).toBe(404);
  expect(await profiles()).toEqual([]);
});

test('compensation answers 409 while another instance holds the lane', async () => {
  const app = await start({ ADMIN_TOKEN: token });
  await database.query(
    "INSERT INTO mailroom_lease (name, owner, fence, held_until) VALUES ('inbox:lane:0', 'other', 7, UTC_TIMESTAMP(3) + INTERVAL 1 HOUR)",
  );
  expect(await app.push(profile('a'), '/push?compensation=true', admin)).toMatchObject({ status: 409 });
  expect(await profiles()).toEqual([]);
});

test('compensations of one customer at once make one profile, each after its turn', async () => {
  const app = await start({ ADMIN_TOKEN: token });
  // The pause lies between the look and the insert. A busy lane is answered 409, and the operator calls again.
  const compensate = async () => {
    for (;;) {
      const { status } = await app.push(profile('a', { simulate: { sleepMs: 30 } }), '/push?compensation=true', admin);
      if (status !== 409) return status;
    }
  };
  expect(await Promise.all([compensate(), compensate(), compensate()])).toEqual([200, 200, 200]);
  expect(await profiles()).toEqual([{ external_id: 'c-1', name: 'a', merged: 2 }]);
});
