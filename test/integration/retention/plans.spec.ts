// What the statements of retention cost in large tables: which index they use, and how many rows they read for a batch.
// Long form: ROWS=1000000.
import { inboxRunBox } from '../../../src/delivery/runs/index.js';
import { MessagePurge } from '../../../src/retention/index.js';
import { purgeJobs } from '../../../src/retention/purge-jobs.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { numbers, PlanWatch, type Statement } from '../../support/plans.js';

const rows = Number(process.env.ROWS ?? 30_000);
const batch = 100;
const dayMs = 86_400_000;
const old = 'UTC_TIMESTAMP(3) - INTERVAL 30 DAY + INTERVAL n SECOND';
const young = 'UTC_TIMESTAMP(3) - INTERVAL 1 DAY';

let database: TestDatabase;
let watch: PlanWatch;

beforeAll(async () => {
  database = await migrated(await createTestDatabase('purge_plans'));
  watch = await PlanWatch.open(database);
  const half = rows / 2;
  for (const [status, finished, box] of [
    ['success', 'finished_at', 'inbox'],
    ['sent', 'sent_at', 'outbox'],
  ] as const) {
    for (const [from, at] of [
      [0, old],
      [half, young],
    ] as const) {
      const columns = box === 'inbox' ? 'source, type, body, lane' : 'message_id, topic, payload';
      const values = box === 'inbox' ? "'s', 't', '{}', n % 2" : "CONCAT('m', n), 't', '{}'";
      await fill(
        `${box}_message (${columns}, status, next_attempt_at, ${finished})`,
        `${values}, '${status}', ${at}, ${at}`,
        from,
        half,
      );
    }
  }
  await fill('inbox_message_archive (id, source, type, body, archived_at)', `n, 's', 't', '', ${old}`, 0, half);
  await fill('mailroom_processed (consumer, message_id, processed_at)', `'c', n, ${old}`, 0, half);
  await fill('mailroom_order_key (order_unit, used_at)', `n, ${old}`, 0, half);
  await fill('replay_item (run_id, message_id)', 'n % 10 + 1, n + 1', 0, half);
  await fill('replay_run (id, box, state, finished_at)', `n + 1, 'inbox', 'done', ${old}`, 0, 10);
  for (const table of ['inbox_message', 'outbox_message', 'mailroom_processed', 'mailroom_order_key', 'replay_item'])
    await database.query(`ANALYZE TABLE ${table}`);
}, 600_000);
afterAll(async () => {
  await watch.close();
  await database.drop();
});

async function fill(into: string, values: string, from: number, count: number): Promise<void> {
  for (let done = 0; done < count; done += 10_000)
    await database.query(
      `INSERT INTO ${into} SELECT ${values} FROM ${numbers(from + done, Math.min(10_000, count - done))} ORDER BY n`,
    );
}

/** Looks at each statement before it is carried out, while it still finds its rows. */
async function watched(work: () => Promise<unknown>, mostRows: number): Promise<Statement[]> {
  const look = async (statement: Statement) => {
    const isBounded = /LIMIT \d+\s*$/.test(statement.sql);
    for (const step of await watch.plan(statement)) {
      // MySQL lists what is inserted into as a table of its own.
      if (step.select_type === 'INSERT') continue;
      // No table is walked through, but for the head of an index where the statement has a LIMIT.
      expect([statement.sql, step.type]).not.toEqual([statement.sql, 'ALL']);
      expect(`${step.Extra ?? ''} of ${statement.sql}`).not.toMatch(/filesort|temporary/);
      if (/^\s*(DELETE|UPDATE|INSERT)/.test(statement.sql) && !isBounded && step.table !== null && step.rows !== null)
        expect([statement.sql, Number(step.rows) <= mostRows]).toEqual([statement.sql, true]);
    }
  };
  watch.pool.before = look;
  watch.pool.beforeRead = async (statement) => {
    await look(statement);
    const read = await watch.rowsRead(statement);
    expect(`${read <= mostRows} ${read} of ${statement.sql}`).toMatch(/^true/);
  };
  try {
    return await watch.noted(work);
  } finally {
    watch.pool.before = undefined;
    watch.pool.beforeRead = undefined;
  }
}

test.each([false, true])(
  'a batch of each job reads twice the batch at most, by an index; archive: %s',
  async (archive) => {
    const jobs = purgeJobs(watch.pool, {
      success: 7 * dayMs,
      sent: 7 * dayMs,
      failed: 7 * dayMs,
      dead: 7 * dayMs,
      archives: 7 * dayMs,
      runs: 7 * dayMs,
      processed: 7 * dayMs,
      orderKeys: 7 * dayMs,
      archive,
      inboxTable: { name: 'inbox_message', columns: {} },
    } as Parameters<typeof purgeJobs>[1]);
    const purged: Record<string, number> = {};
    for (const job of jobs) {
      await watched(
        async () => {
          for (let step = 0; step < 3; step++)
            purged[job.name] = (purged[job.name] ?? 0) + (await job.step(batch)).purged;
        },
        2 * batch + 10,
      );
    }
    expect(purged).toMatchObject({
      'inbox_message.success': 3 * batch,
      'outbox_message.sent': 3 * batch,
      inbox_message_archive: 3 * batch,
      replay_run: 3 * batch,
      mailroom_processed: 3 * batch,
      mailroom_order_key: 3 * batch,
    });
  },
);

test('a pass that finds nothing old reads a few rows, however many young ones there are', async () => {
  const purge = new MessagePurge(watch.pool, inboxRunBox, {
    status: 'success',
    olderThanMs: 365 * dayMs,
    archive: false,
  });
  await watched(async () => {
    for (let more = true; more; ) more = (await purge.step(batch)).more;
  }, 10);
});

test('counting what is old reads no more than it counts to, and nothing of what is young', async () => {
  const count = (olderThanMs: number, countTo: number) =>
    new MessagePurge(watch.pool, inboxRunBox, { status: 'success', olderThanMs, archive: false }).count(countTo);
  await watched(async () => expect(await count(7 * dayMs, 500)).toBe(500), 1_010);
  await watched(async () => expect(await count(365 * dayMs, 500)).toBe(0), 10);
});
