// What a scrape costs beside many rows: each of its statements stays in an index and reads a bounded number of entries.
// Long form: ROWS=1000000, which also prints how long a scrape takes.
import { ScheduleModule } from '@nestjs/schedule';
import { Test } from '@nestjs/testing';
import { TypeOrmModule } from '@nestjs/typeorm';
import { Registry } from 'prom-client';
import { ControlConnection } from '../../../src/database/index.js';
import { InboxModule, localTransport, MailroomMetricsModule, OutboxModule } from '../../../src/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { numbers, PlanWatch, type Statement } from '../../support/plans.js';

const rows = Number(process.env.ROWS ?? 30_000);
/** 10,001 entries of each status that there is; of what is pending they are read once more where they are counted. */
const mostRead = 3 * 10_001 + 100;

let database: TestDatabase;
let watch: PlanWatch;

beforeAll(async () => {
  database = await migrated(await createTestDatabase('scrape'));
  watch = await PlanWatch.open(database);
  for (const status of ['success', 'pending'])
    await fill(
      'inbox_message (source, type, body, status, next_attempt_at)',
      `'s', 't', '{}', '${status}', '2020-01-01'`,
    );
  for (const status of ['sent', 'pending'])
    await fill(
      'outbox_message (message_id, topic, payload, status, next_attempt_at)',
      `CONCAT('${status}', n), 't', '{}', '${status}', '2020-01-01'`,
    );
  await database.query('ANALYZE TABLE inbox_message, outbox_message');
}, 600_000);
afterAll(async () => {
  await watch.close();
  await database.drop();
});

async function fill(into: string, values: string): Promise<void> {
  for (let done = 0; done < rows; done += 10_000)
    await database.query(`INSERT INTO ${into} SELECT ${values} FROM ${numbers(done, Math.min(10_000, rows - done))}`);
}

/** The SELECTs that the process sends during `work`. */
async function selectsOf(work: () => Promise<unknown>): Promise<Statement[]> {
  const seen: Statement[] = [];
  const { rows: send } = ControlConnection.prototype;
  ControlConnection.prototype.rows = function (sql, values = []) {
    seen.push({ sql, values });
    return send.call(this, sql, values) as never;
  };
  try {
    await work();
    return seen;
  } finally {
    ControlConnection.prototype.rows = send;
  }
}

test('a scrape walks through no table, and counts 10,000 of each status at most', async () => {
  const registry = new Registry();
  const app = await Test.createTestingModule({
    imports: [
      TypeOrmModule.forRoot({ ...database.options, retryAttempts: 0 }),
      ScheduleModule.forRoot(),
      InboxModule.forRoot({ shutdown: { readinessDelay: 0 }, sources: { s: { type: () => 't' } } }),
      OutboxModule.forRoot({ transports: { local: localTransport() } }),
      MailroomMetricsModule.forRoot({ registry, sampleFor: 0 }),
    ],
  })
    .setLogger(false as never)
    .compile();
  try {
    await app.init();
    let text = '';
    const statements = await selectsOf(async () => {
      text = await registry.metrics();
    });
    expect(text.split('\n').filter((line) => line.startsWith('mailroom_messages'))).toEqual(
      expect.arrayContaining([
        'mailroom_messages{box="inbox",status="success"} 10000',
        'mailroom_messages{box="inbox",status="pending"} 10000',
        'mailroom_messages{box="outbox",status="sent"} 10000',
        'mailroom_messages{box="outbox",status="pending"} 10000',
      ]),
    );
    const about = (table: string) => statements.filter(({ sql }) => sql.includes(table));
    expect(about('inbox_message').length).toBeGreaterThan(0);
    expect(about('outbox_message').length).toBeGreaterThan(0);
    for (const statement of statements) {
      for (const { table, key, Extra } of await watch.plan(statement)) {
        expect(`${Extra ?? ''} of ${statement.sql}`).not.toMatch(/filesort/);
        if (table?.match(/_message$|^m$/)) expect([statement.sql, key]).toEqual([statement.sql, expect.any(String)]);
      }
      const read = await watch.rowsRead(statement);
      expect(`${read <= mostRead} ${read} of ${statement.sql}`).toMatch(/^true/);
    }
    if (process.env.ROWS) await printTimes(() => registry.metrics());
  } finally {
    await app.close();
  }
});

async function printTimes(scrape: () => Promise<unknown>): Promise<void> {
  const times: number[] = [];
  for (let n = 0; n < 21; n++) {
    const startedAt = performance.now();
    await scrape();
    times.push(performance.now() - startedAt);
  }
  times.sort((a, b) => a - b);
  process.stderr.write(
    `a scrape beside ${rows} rows of each: ${times[10]?.toFixed(1)} ms, longest ${times[20]?.toFixed(1)} ms\n`,
  );
}
