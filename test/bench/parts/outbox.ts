import { randomBytes } from 'node:crypto';
import { createConnection, type ResultSetHeader, type RowDataPacket } from 'mysql2/promise';
import type { TestDatabase } from '../../support/database.js';
import { notingTransport, outboxCounts, startOutboxApp } from '../../support/outbox-app.js';
import { numbers } from '../../support/plans.js';
import { waitUntil } from '../../support/wait-until.js';
import { median, milliseconds, rate } from '../harness/figures.js';
import { atLeast, atMost, type BenchContext, type Part, type Target } from '../harness/part.js';

/** Messages claimed at once, ours and by hand. */
const batch = 100;

interface Drain {
  readonly name: 'by hand' | 'the relay';
  readonly perSecond: number;
  readonly sent: number;
}

/** From commit to handler, and how fast a backlog drains beside the same statements by hand. */
export const part: Part = {
  about: 'the outbox: wake after a commit, and draining a backlog through a transport that does nothing',
  async run(context) {
    const wakes = await wake(context);
    const { database, length, log } = context;
    const messages = length === 'quick' ? 2_000 : 50_000;
    const drains: Drain[] = [];
    for (let round = 0; round < (length === 'quick' ? 1 : 3); round++) {
      log(`outbox: draining, round ${round + 1}`);
      const turns = [byHand, relay];
      for (const drain of round % 2 === 0 ? turns : turns.toReversed()) drains.push(await drain(database, messages));
    }
    return report(wakes, drains, messages);
  },
};

/** Milliseconds from the end of each transaction to the start of its handler. */
async function wake({ database, length, log }: BenchContext): Promise<number[]> {
  const count = length === 'quick' ? 50 : 1_000;
  log(`outbox: ${count} commits, 100 a second`);
  const committed = new Map<string, number>();
  const started = new Map<string, number>();
  const app = await startOutboxApp(database, {
    handlers: { tick: ({ id }) => void started.set(id, performance.now()) },
    outbox: { enabled: true, pollInterval: '10s' },
  });
  try {
    const begin = performance.now();
    for (let n = 0; n < count; n++) {
      // An open loop: each is due at its time, whether or not the last one was quick.
      const waitMs = begin + n * 10 - performance.now();
      if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
      const [id] = await app.send({ topic: 'tick', payload: n });
      committed.set(id ?? '', performance.now());
    }
    await waitUntil(() => started.size === count, { what: 'all are handled', timeoutMs: 30_000 });
  } finally {
    await app.close();
    await database.query('DELETE FROM outbox_message');
  }
  return [...committed].map(([id, at]) => Math.max(0, (started.get(id) ?? Number.NaN) - at));
}

async function fill(database: TestDatabase, messages: number): Promise<void> {
  await database.query('TRUNCATE TABLE outbox_message');
  for (let done = 0; done < messages; done += 10_000) {
    await database.query(
      `INSERT INTO outbox_message (message_id, topic, payload, content_type, status, next_attempt_at, created_at)
       SELECT CONCAT('m', n), 't', '{"n":1}', 'application/json', 'pending', UTC_TIMESTAMP(3) - INTERVAL 1 MINUTE, UTC_TIMESTAMP(3)
         FROM ${numbers(done, Math.min(10_000, messages - done))}`,
    );
  }
}

async function relay(database: TestDatabase, messages: number): Promise<Drain> {
  await fill(database, messages);
  const transport = notingTransport(undefined, batch);
  const startedAt = performance.now();
  const app = await startOutboxApp(database, {
    outbox: { enabled: true, pollInterval: '1s', batchSize: batch, transports: { out: transport } },
  });
  try {
    const counted = () => app.events('sent').length >= messages;
    await waitUntil(counted, { what: 'the backlog is sent', timeoutMs: 600_000, intervalMs: 5 });
    const took = performance.now() - startedAt;
    const sent = new Set(transport.ids()).size;
    const { sent: marked = 0 } = await outboxCounts(database);
    return { name: 'the relay', perSecond: (messages / took) * 1000, sent: Math.min(sent, marked) };
  } finally {
    await app.close();
  }
}

/** The same claim and the same mark, one after the other on one connection, and nothing else. */
async function byHand(database: TestDatabase, messages: number): Promise<Drain> {
  await fill(database, messages);
  const connection = await createConnection(database.url);
  let sent = 0;
  try {
    await connection.query('SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED');
    const startedAt = performance.now();
    for (;;) {
      const token = randomBytes(16);
      await connection.query('START TRANSACTION');
      const [rows] = await connection.execute<RowDataPacket[]>(
        `SELECT CAST(m.id AS CHAR) AS id, m.message_id, m.topic, m.payload FROM outbox_message m FORCE INDEX (outbox_claim)
          WHERE m.status = 'pending' AND m.next_attempt_at <= UTC_TIMESTAMP(3)
          ORDER BY m.next_attempt_at, m.id LIMIT ${batch} FOR UPDATE SKIP LOCKED`,
      );
      const ids = rows.map((row) => row.id as string);
      if (ids.length > 0) {
        await connection.query(
          `UPDATE outbox_message m FORCE INDEX (PRIMARY) SET m.status = 'sending', m.attempts = m.attempts + 1, m.claim_token = ?,
                  m.claimed_until = UTC_TIMESTAMP(3) + INTERVAL 60 SECOND, m.updated_at = UTC_TIMESTAMP(3) WHERE m.id IN (?)`,
          [token, ids],
        );
      }
      await connection.query('COMMIT');
      if (ids.length === 0) break;
      const [done] = await connection.query<ResultSetHeader>(
        `UPDATE outbox_message m FORCE INDEX (PRIMARY) SET m.status = 'sent', m.sent_at = UTC_TIMESTAMP(3), m.claim_token = NULL,
                m.claimed_until = NULL, m.updated_at = UTC_TIMESTAMP(3)
          WHERE m.id IN (?) AND m.status = 'sending' AND m.claim_token = ?`,
        [ids, token],
      );
      sent += done.affectedRows;
    }
    return { name: 'by hand', perSecond: (sent / (performance.now() - startedAt)) * 1000, sent };
  } finally {
    await connection.end();
  }
}

function report(wakes: readonly number[], drains: readonly Drain[], messages: number) {
  const sorted = [...wakes].sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
  const of = (name: Drain['name']) => drains.filter((drain) => drain.name === name);
  const ratios = of('the relay').map(
    ({ perSecond }, round) => perSecond / (of('by hand')[round]?.perSecond ?? Number.NaN),
  );
  const lost = drains.reduce((sum, { sent }) => sum + messages - sent, 0);
  const missing: Target[] = ['BullMQ', 'graphile-worker'].map((peer) => atLeast(`the relay / ${peer}`, 1, null));
  return {
    tables: [
      {
        title: `From commit to handler, ${wakes.length} commits at 100 a second`,
        columns: ['p50', 'p99', 'slowest'],
        rows: [[milliseconds(at(0.5)), milliseconds(at(0.99)), milliseconds(sorted.at(-1) ?? Number.NaN)]],
      },
      {
        title: `Draining ${messages.toLocaleString('en-US')} messages, ${batch} at a time, medians`,
        columns: ['', 'messages/s'],
        rows: (['by hand', 'the relay'] as const).map((name) => [
          name,
          rate(median(of(name).map(({ perSecond }) => perSecond))),
        ]),
      },
    ],
    targets: [
      atMost('commit to handler, p50 in ms', 5, at(0.5)),
      atMost('commit to handler, p99 in ms', 30, at(0.99)),
      atLeast('the relay / by hand, messages per second', 0.75, median(ratios)),
      ...missing,
    ],
    verdicts: [
      { name: 'every message is sent and marked', ok: lost === 0, detail: `${drains.length} drains: ${lost} missing` },
    ],
    figures: { wakes: sorted, drains },
  };
}
