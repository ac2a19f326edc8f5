// A run over instances that are killed while they work on it, and over a cancel: each message once, every count right.
// Long form: REPLAYED=10000.
import type { INestApplication } from '@nestjs/common';
import { ScheduleModule } from '@nestjs/schedule';
import { Test } from '@nestjs/testing';
import { TypeOrmModule } from '@nestjs/typeorm';
import { ReplayModule, ReplayService } from '../../../src/index.js';
import { type Child, startChild } from '../../support/child.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { opened } from '../../support/open-resources.js';
import { waitUntil } from '../../support/wait-until.js';

const messages = Number(process.env.REPLAYED ?? 1_000);
let database: TestDatabase;
let app: INestApplication;
let closed: () => void;
const children: Child[] = [];

beforeAll(async () => {
  database = await migrated(await createTestDatabase('replay_kill'));
  const module = await Test.createTestingModule({
    imports: [
      TypeOrmModule.forRoot({ ...database.options, retryAttempts: 0 }),
      ScheduleModule.forRoot(),
      ReplayModule.forRoot({ enabled: false }),
    ],
  }).compile();
  app = module.createNestApplication({ logger: false });
  closed = opened({ what: 'an application with replay', close: () => app.close() });
  await app.init();
});
afterAll(async () => {
  await Promise.all(children.map((child) => child.kill()));
  await app.close();
  closed();
  await database.drop();
});

async function instance(): Promise<Child> {
  const child = startChild(new URL('../../support/fixtures/replay-instance.ts', import.meta.url), {
    env: { DATABASE_URL: database.url },
  });
  children.push(child);
  await child.line('ready', 60_000);
  return child;
}

test('two kills, a cancel and a resume: each message is requeued once, the counts add up, the audit is whole', async () => {
  for (let left = messages; left > 0; left -= 500)
    await database.query(
      `INSERT INTO inbox_message (source, type, body, status, attempts, error_kind, next_attempt_at, received_at, finished_at)
       VALUES ${Array(Math.min(500, left)).fill("('s', 't', '{}', 'failed', 4, 'away', '2026-01-01', '2026-01-01', '2026-01-01')").join(', ')}`,
    );
  const replay = app.get(ReplayService);
  const { id } = await replay.start({ all: true }, { actor: 'ann', reason: 'the shop is back', ratePerSecond: 500 });
  const done = (share: number) =>
    waitUntil(async () => ((await replay.get(id))?.requeued ?? 0) >= messages * share, {
      what: `${share} of the run is done`,
      timeoutMs: 60_000,
    });

  for (const share of [0.1, 0.3]) {
    const victim = await instance();
    await done(share);
    await victim.kill();
    expect(await replay.get(id)).toMatchObject({ state: 'running' });
  }
  await instance();
  await done(0.5);
  expect(await replay.cancel(id)).toBe(true);
  const { requeued = 0 } = (await replay.get(id)) ?? {};
  expect(requeued).toBeLessThan(messages);
  expect(await replay.resume(id)).toBe(true);
  await waitUntil(async () => (await replay.get(id))?.state === 'done', { what: 'the run ends', timeoutMs: 90_000 });

  expect(await replay.get(id)).toMatchObject({ selected: messages, requeued: messages, skipped: 0, refused: 0 });
  expect(
    await database.query('SELECT status, replay_count AS replays, COUNT(*) AS n FROM inbox_message GROUP BY 1, 2'),
  ).toEqual([{ status: 'pending', replays: 1, n: messages }]);
  expect(
    await database.query(
      'SELECT COUNT(*) AS n, COUNT(DISTINCT id) AS ids, MIN(attempts) AS attempts FROM inbox_message_archive WHERE run_id = ?',
      [id],
    ),
  ).toEqual([{ n: messages, ids: messages, attempts: 4 }]);
  expect(
    await database.query('SELECT outcome, COUNT(*) AS n FROM replay_item WHERE run_id = ? GROUP BY outcome', [id]),
  ).toEqual([{ outcome: 'requeued', n: messages }]);
});
