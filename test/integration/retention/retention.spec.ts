// What retention takes and what it leaves, on real tables: by age, status and lock, with its copies and its lease.
import type { INestApplication } from '@nestjs/common';
import { ScheduleModule } from '@nestjs/schedule';
import { Test } from '@nestjs/testing';
import { TypeOrmModule } from '@nestjs/typeorm';
import { createConnection } from 'mysql2/promise';
import { DataSource } from 'typeorm';
import { type ControlConnection, ControlPool } from '../../../src/database/index.js';
import { inboxRunBox } from '../../../src/delivery/runs/index.js';
import {
  InboxModule,
  type MailroomEvent,
  MailroomEvents,
  OutboxModule,
  RetentionModule,
  type RetentionOptions,
  RetentionService,
} from '../../../src/index.js';
import { MessagePurge } from '../../../src/retention/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { opened } from '../../support/open-resources.js';
import { waitUntil } from '../../support/wait-until.js';

const dayMs = 86_400_000;
let database: TestDatabase;
let close: () => Promise<void> = async () => undefined;

beforeAll(async () => {
  database = await migrated(await createTestDatabase('retention'));
});
afterEach(async () => {
  await close();
  close = async () => undefined;
  for (const table of [
    'inbox_message',
    'outbox_message',
    'inbox_message_archive',
    'outbox_message_archive',
    'replay_run',
    'replay_item',
    'mailroom_processed',
    'mailroom_order_key',
    'mailroom_lease',
  ])
    await database.query(`DELETE FROM ${table}`);
});
afterAll(() => database.drop());

async function start(
  options: RetentionOptions = {},
  imports: NonNullable<Parameters<typeof Test.createTestingModule>[0]['imports']> = [],
) {
  const module = await Test.createTestingModule({
    imports: [
      TypeOrmModule.forRoot({ ...database.options, retryAttempts: 0 }),
      ScheduleModule.forRoot(),
      RetentionModule.forRoot({ enabled: false, ...options }),
      ...imports,
    ],
  }).compile();
  const app: INestApplication = module.createNestApplication({ logger: false });
  const closed = opened({ what: 'an application with retention', close: () => app.close() });
  close = async () => {
    await app.close();
    closed();
  };
  const seen: MailroomEvent[] = [];
  app.get(MailroomEvents).on('purged', (event) => seen.push(event));
  await app.init();
  return { service: app.get(RetentionService), seen };
}

/** Messages of the inbox, each with an end so many days ago. */
async function inbox(rows: readonly { status: string; days: number; lane?: number; open?: string; due?: string }[]) {
  const ids: string[] = [];
  for (const { status, days, lane = 0, open = null, due } of rows) {
    await database.query(
      `INSERT INTO inbox_message (source, type, body, status, lane, open_entity, next_attempt_at, received_at, updated_at, finished_at)
       VALUES ('s', 't', '{}', ?, ?, ?, COALESCE(?, UTC_TIMESTAMP(3) - INTERVAL ? DAY), UTC_TIMESTAMP(3) - INTERVAL ? DAY,
               UTC_TIMESTAMP(3) - INTERVAL ? DAY, UTC_TIMESTAMP(3) - INTERVAL ? DAY)`,
      [status, lane, open, due ?? null, days, days, days, days],
    );
    const [row] = await database.query<{ id: number }>('SELECT LAST_INSERT_ID() AS id');
    ids.push(String(row?.id));
  }
  return ids;
}

const left = async () =>
  (await database.query<{ id: number }>('SELECT id FROM inbox_message ORDER BY id')).map(({ id }) => String(id));

test('what succeeded is taken out after its age, in every lane; younger ones, failed and unfinished ones stay', async () => {
  const never = '1970-01-01 00:00:00';
  const [, , , ...rest] = await inbox([
    { status: 'success', days: 8 },
    { status: 'success', days: 8, lane: 7 },
    { status: 'success', days: 30, due: never },
    { status: 'success', days: 6 },
    { status: 'success', days: 6, due: never },
    { status: 'failed', days: 400 },
    { status: 'pending', days: 400 },
    { status: 'processing', days: 400 },
    { status: 'held', days: 400 },
  ]);
  const { service, seen } = await start();
  expect(await service.runOnce()).toEqual([{ table: 'inbox_message.success', rows: 3 }]);
  expect(await left()).toEqual(rest);
  expect(service.totals()).toMatchObject({ passes: 1, failedBatches: 0, rows: { 'inbox_message.success': 3 } });
  expect(seen.length).toBeGreaterThan(0);
  expect(seen[0]).toMatchObject({ name: 'purged', table: 'inbox_message.success' });
  expect(await service.runOnce()).toEqual([]);
});

test('what the outbox sent goes too, and failed messages only where an age is given; one that parks its entity stays', async () => {
  const [, parking] = await inbox([
    { status: 'failed', days: 31 },
    { status: 'failed', days: 31, open: '5' },
  ]);
  for (const [id, status] of ['sent', 'dead', 'pending', 'parked'].entries())
    await database.query(
      `INSERT INTO outbox_message (message_id, topic, payload, status, next_attempt_at, created_at, sent_at)
       VALUES (?, 't', '{}', ?, '2020-01-01', '2020-01-01', NULL)`,
      [`m${id}`, status],
    );
  const { service } = await start({ failed: '30d' });
  expect(await service.runOnce()).toEqual([
    { table: 'outbox_message.sent', rows: 1 },
    { table: 'inbox_message.failed', rows: 1 },
  ]);
  expect(await left()).toEqual([parking]);
  expect(await database.query('SELECT status FROM outbox_message ORDER BY id')).toEqual([
    { status: 'dead' },
    { status: 'pending' },
    { status: 'parked' },
  ]);
});

test('with archive: true messages are copied in the transaction that deletes them', async () => {
  const [id] = await inbox([{ status: 'success', days: 8 }]);
  const { service } = await start({ archive: true });
  await service.runOnce();
  expect(await left()).toEqual([]);
  expect(
    await database.query('SELECT CAST(id AS CHAR) AS id, status, reason, run_id FROM inbox_message_archive'),
  ).toEqual([{ id, status: 'success', reason: 'retention', run_id: null }]);
});

test('archives, ended runs with their items, processed messages and unused lock rows go at their ages', async () => {
  const old = 'UTC_TIMESTAMP(3) - INTERVAL 100 DAY';
  const young = 'UTC_TIMESTAMP(3) - INTERVAL 1 DAY';
  for (const [n, at] of [old, young].entries()) {
    await database.query(
      `INSERT INTO inbox_message_archive (id, source, type, body, archived_at) VALUES (${n}, 's', 't', '', ${at})`,
    );
    await database.query(
      `INSERT INTO mailroom_processed (consumer, message_id, processed_at) VALUES ('c', 'm${n}', ${at})`,
    );
    await database.query(`INSERT INTO mailroom_order_key (order_unit, used_at) VALUES (${n}, ${at})`);
    for (const [m, state] of ['done', 'cancelled', 'running', 'pending'].entries()) {
      const run = n * 10 + m + 1;
      await database.query(
        `INSERT INTO replay_run (id, box, state, finished_at) VALUES (${run}, 'inbox', '${state}', ${m < 2 ? at : 'NULL'})`,
      );
      await database.query(`INSERT INTO replay_item (run_id, message_id) VALUES (${run}, 1), (${run}, 2), (${run}, 3)`);
    }
  }
  const { service } = await start({ batchSize: 2 });
  expect(await service.runOnce()).toEqual([
    { table: 'inbox_message_archive', rows: 1 },
    { table: 'replay_run', rows: 8 },
    { table: 'mailroom_processed', rows: 1 },
    { table: 'mailroom_order_key', rows: 1 },
  ]);
  expect(await database.query('SELECT id FROM inbox_message_archive')).toEqual([{ id: 1 }]);
  expect(await database.query('SELECT CAST(message_id AS CHAR) AS id FROM mailroom_processed')).toEqual([{ id: 'm1' }]);
  expect(await database.query('SELECT order_unit AS unit FROM mailroom_order_key')).toEqual([{ unit: 1 }]);
  const runs = await database.query<{ id: number }>('SELECT id FROM replay_run ORDER BY id');
  expect(runs.map(({ id }) => id)).toEqual([3, 4, 11, 12, 13, 14]);
  expect(await database.query('SELECT COUNT(*) AS n FROM replay_item')).toEqual([{ n: 18 }]);
});

test('a row that somebody has locked is not waited for; it goes when it is free', async () => {
  const [locked] = await inbox([
    { status: 'success', days: 8 },
    { status: 'success', days: 8 },
  ]);
  const { service } = await start();
  const other = await createConnection(database.url);
  try {
    await other.query('START TRANSACTION');
    await other.query('SELECT id FROM inbox_message WHERE id = ? FOR UPDATE', [locked]);
    expect(await service.runOnce()).toEqual([{ table: 'inbox_message.success', rows: 1 }]);
    expect(service.totals().failedBatches).toBe(0);
    expect(await left()).toEqual([locked]);
    await other.query('ROLLBACK');
  } finally {
    await other.end();
  }
  expect(await service.runOnce()).toEqual([{ table: 'inbox_message.success', rows: 1 }]);
});

test('a message that is replayed between the look and the lock stays', async () => {
  const [id] = await inbox([{ status: 'success', days: 8 }]);
  const dataSource = await new DataSource(database.options).initialize();
  class Replaying extends ControlPool {
    override async transaction<T>(work: (tx: ControlConnection) => Promise<T>): Promise<T> {
      await database.query("UPDATE inbox_message SET status = 'pending' WHERE id = ?", [id]);
      return super.transaction(work);
    }
  }
  const pool = new Replaying(dataSource, { size: 1 });
  try {
    const purge = new MessagePurge(pool, inboxRunBox, { status: 'success', olderThanMs: 7 * dayMs, archive: true });
    expect(await purge.step(100)).toEqual({ purged: 0, more: true });
    expect(await left()).toEqual([id]);
    expect(await database.query('SELECT * FROM inbox_message_archive')).toEqual([]);
  } finally {
    await pool.close();
    await dataSource.destroy();
  }
});

test('while another instance holds the lease nothing is done', async () => {
  await inbox([{ status: 'success', days: 8 }]);
  const { service } = await start();
  await database.query(
    "INSERT INTO mailroom_lease (name, owner, held_until) VALUES ('chore:retention', 'other', UTC_TIMESTAMP(3) + INTERVAL 1 HOUR)",
  );
  expect(await service.runOnce()).toBeNull();
  await database.query("UPDATE mailroom_lease SET held_until = '1970-01-01' WHERE name = 'chore:retention'");
  expect(await service.runOnce()).toHaveLength(1);
  expect(await database.query("SELECT owner FROM mailroom_lease WHERE name = 'chore:retention'")).toEqual([
    { owner: null },
  ]);
});

test('switched on, it runs by itself', async () => {
  await inbox([{ status: 'success', days: 8 }]);
  const { service } = await start({ enabled: true, interval: 100 });
  await waitUntil(async () => (await left()).length === 0, { what: 'the old message is gone' });
  await waitUntil(async () => service.totals().passes > 0, { what: 'the first pass ends' });
  await inbox([{ status: 'success', days: 8 }]);
  await waitUntil(async () => (await left()).length === 0, { what: 'the next one is gone' });
});

describe('an age shorter than a message is tried again stops the start-up', () => {
  const inboxModule = () => InboxModule.forRoot({ sources: {}, backoff: ['1h'], maxRetry: 2, handlerTimeout: '1m' });
  const outboxModule = () => OutboxModule.forRoot({ transports: {}, route: () => 'none', parkExpiry: '3d' });
  test.each([
    ['success', { success: '2h' as const }, 'write at least 7380s'],
    ['sent', { sent: '10m' as const }, 'write at least'],
    ['processed', { processed: '3d' as const }, 'write at least'],
  ])('%s', async (name, options, words) => {
    await expect(start(options, [inboxModule(), outboxModule()])).rejects.toThrow(`retention.${name}: `);
    await close();
    await expect(start(options, [inboxModule(), outboxModule()])).rejects.toThrow(words);
  });

  test('long enough ones start', async () => {
    await start({ success: '3h', sent: '1h', processed: '4d' }, [inboxModule(), outboxModule()]);
  });

  test('nonsense is refused at once', () => {
    expect(() => RetentionModule.forRoot({ success: true as never })).toThrow(/^retention\.success: /);
    expect(() => RetentionModule.forRoot({ succes: '1d' } as never)).toThrow(/^retention\.succes: /);
  });
});
