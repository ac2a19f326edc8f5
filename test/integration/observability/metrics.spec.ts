// C131 and what the metrics say: applications with an inbox and metrics on a real database, scraped through their registry.
import { jest } from '@jest/globals';
import type { TestingModule } from '@nestjs/testing';
import { Test } from '@nestjs/testing';
import { TypeOrmModule } from '@nestjs/typeorm';
import { Counter, Registry, register } from 'prom-client';
import { InboxModule, InboxService, MailroomMetricsModule, type MetricsOptions } from '../../../src/index.js';
import { createTestDatabase, migrated } from '../../support/database.js';
import { numbers } from '../../support/plans.js';

const database = await migrated(await createTestDatabase('metrics'));
const open: { close(): Promise<void> }[] = [];

afterEach(async () => {
  for (const app of open.splice(0)) await app.close();
  await database.query('DELETE FROM inbox_message');
});
afterAll(() => database.drop());

async function boot(options: MetricsOptions): Promise<TestingModule> {
  const app = await Test.createTestingModule({
    imports: [
      TypeOrmModule.forRoot({ ...database.options, retryAttempts: 0 }),
      InboxModule.forRoot({
        shutdown: { readinessDelay: 0 },
        sources: { test: { type: (push) => push.json.type, dedupKey: (push) => push.json.id ?? null } },
      }),
      MailroomMetricsModule.forRoot(options),
    ],
  })
    .setLogger(false as never)
    .compile();
  await app.init();
  open.push(app);
  return app;
}

/** Metrics alone: a start-up that fails leaves nothing open. */
const bare = (options: MetricsOptions) =>
  Test.createTestingModule({ imports: [MailroomMetricsModule.forRoot(options)] }).compile();

const push = (app: TestingModule, body: object) =>
  app.get(InboxService).receive('test', { rawBody: JSON.stringify(body) });
const lines = async (registry: Registry, start: string) =>
  (await registry.metrics()).split('\n').filter((line) => line.startsWith(start));

test('what happened is counted, and the table is sampled on a scrape', async () => {
  const registry = new Registry();
  const app = await boot({ registry, sampleFor: 0, defaultLabels: { app: 'shop' } });
  await push(app, { type: 'a', id: '1' });
  await push(app, { type: 'a', id: '1' });
  await expect(app.get(InboxService).receive('test', { rawBody: '{' })).rejects.toThrow();
  expect(await lines(registry, 'mailroom_inbox_stored_total')).toEqual([
    'mailroom_inbox_stored_total{source="test",type="a",app="shop"} 1',
  ]);
  expect(await lines(registry, 'mailroom_inbox_duplicates_total')).toHaveLength(1);
  expect(await lines(registry, 'mailroom_inbox_refused_total')).toEqual([
    'mailroom_inbox_refused_total{source="test",reason="invalid",app="shop"} 1',
  ]);
  const sampled = await lines(registry, 'mailroom_messages');
  expect(sampled).toContain('mailroom_messages{box="inbox",status="pending",app="shop"} 1');
  expect(await lines(registry, 'mailroom_sample_up')).toEqual(['mailroom_sample_up{box="inbox",app="shop"} 1']);
});

test('types beyond the limit fall into "other"', async () => {
  const registry = new Registry();
  const app = await boot({ registry, labelLimit: 2 });
  for (const type of ['a', 'b', 'c', 'd', 'a']) await push(app, { type });
  expect((await lines(registry, 'mailroom_inbox_stored_total')).sort()).toEqual([
    'mailroom_inbox_stored_total{source="test",type="a"} 2',
    'mailroom_inbox_stored_total{source="test",type="b"} 1',
    'mailroom_inbox_stored_total{source="test",type="other"} 2',
  ]);
});

test('C127 many scrapes over a large table ask it once for a sample, which counts up to a limit', async () => {
  const registry = new Registry();
  const app = await boot({ registry, sampleFor: '1m' });
  await database.query(
    `INSERT INTO inbox_message (source, type, body, status, next_attempt_at)
     SELECT 'test', 'a', '', 'success', '2026-01-01' FROM ${numbers(0, 12_000)}`,
  );
  const stats = jest.spyOn(app.get(InboxService), 'stats');
  const scrapes = await Promise.all(Array.from({ length: 30 }, () => lines(registry, 'mailroom_messages')));
  expect(stats).toHaveBeenCalledTimes(1);
  for (const sampled of [scrapes[0], await lines(registry, 'mailroom_messages')])
    expect(sampled).toContain('mailroom_messages{box="inbox",status="success"} 10000');
  expect(stats).toHaveBeenCalledTimes(1);
});

test('C131 two applications and a third after them share one registry, and the last that closes takes the series away', async () => {
  const first = await boot({});
  const second = await boot({});
  await push(first, { type: 'a' });
  await push(second, { type: 'a' });
  const counted = () => lines(register, 'mailroom_inbox_stored_total{');
  expect(await counted()).toEqual(['mailroom_inbox_stored_total{source="test",type="a"} 2']);
  await first.close();
  expect(await counted()).toHaveLength(1);
  await second.close();
  expect(await lines(register, 'mailroom_')).toEqual([]);
  const third = await boot({});
  await push(third, { type: 'a' });
  expect(await counted()).toEqual(['mailroom_inbox_stored_total{source="test",type="a"} 1']);
});

test('C131 a foreign metric of our name, and other default labels, stop the start-up with a clear text', async () => {
  const registry = new Registry();
  new Counter({ name: 'mailroom_inbox_stored_total', help: 'of somebody else', registers: [registry] });
  await expect(bare({ registry })).rejects.toThrow(/a metric of this name that is not of mailroom/);
  expect(registry.getMetricsAsArray()).toHaveLength(1);
  const shared = new Registry();
  await boot({ registry: shared, defaultLabels: { app: 'a' } });
  await expect(bare({ registry: shared })).rejects.toThrow(/in use with the labels \[app\]/);
});

test('when the table cannot be asked a scrape answers all the same, and old numbers are gone', async () => {
  const registry = new Registry();
  const app = await boot({ registry, sampleFor: 0 });
  await push(app, { type: 'a' });
  expect(await lines(registry, 'mailroom_messages')).not.toEqual([]);
  await database.query('RENAME TABLE inbox_message TO elsewhere');
  try {
    expect(await lines(registry, 'mailroom_sample_up')).toEqual(['mailroom_sample_up{box="inbox"} 0']);
    expect(await lines(registry, 'mailroom_messages')).toEqual([]);
  } finally {
    await database.query('RENAME TABLE elsewhere TO inbox_message');
  }
  expect(await lines(registry, 'mailroom_sample_up')).toEqual(['mailroom_sample_up{box="inbox"} 1']);
});
