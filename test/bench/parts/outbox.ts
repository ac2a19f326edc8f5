import { randomBytes } from 'node:crypto';
import { createConnection, type ResultSetHeader, type RowDataPacket } from 'mysql2/promise';
import { MailroomEvents } from '../../../src/index.js';
import type { TestDatabase } from '../../support/database.js';
import { notingTransport, outboxCounts, startOutboxApp } from '../../support/outbox-app.js';
import { numbers } from '../../support/plans.js';
import { waitUntil } from '../../support/wait-until.js';
import { median, milliseconds, rate, rotated } from '../harness/figures.js';
import { atLeast, atMost, type BenchContext, type Part } from '../harness/part.js';
import { Steady } from '../harness/steady.js';
import { event } from '../inbox/orders.js';
import { findPeers, type Peer, peerNames } from '../peers/peers.js';

/** Messages claimed at once, ours and by hand. */
const batch = 100;

interface Drain {
  readonly name: string;
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
    const peers = await findPeers(context.redisUrl);
    const drains: Drain[] = [];
    for (let round = 0; round < (length === 'quick' ? 1 : 3); round++) {
      log(`outbox: draining, round ${round + 1}`);
      const turns = [byHand, relay, ...peers.map((peer) => () => drainedBy(peer, messages))];
      for (const drain of rotated(turns, round)) drains.push(await drain(database, messages));
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
       SELECT CONCAT('m', n), 't', ?, 'application/json', 'pending', UTC_TIMESTAMP(3) - INTERVAL 1 MINUTE, UTC_TIMESTAMP(3)
         FROM ${numbers(done, Math.min(10_000, messages - done))}`,
      [event],
    );
  }
}

async function relay(database: TestDatabase, messages: number): Promise<Drain> {
  await fill(database, messages);
  const transport = notingTransport(undefined, batch);
  const steady = new Steady(messages);
  const app = await startOutboxApp(database, {
    outbox: { enabled: true, pollInterval: '1s', batchSize: batch, transports: { out: transport } },
    prepare: (starting) => starting.get(MailroomEvents).on('sent', () => steady.done()),
  });
  try {
    await waitUntil(() => steady.count >= messages, { what: 'the backlog is sent', timeoutMs: 600_000, intervalMs: 5 });
    const sent = new Set(transport.ids()).size;
    const { sent: marked = 0 } = await outboxCounts(database);
    return { name: 'the relay', perSecond: steady.pace().perSecond, sent: Math.min(sent, marked) };
  } finally {
    await app.close();
  }
}

async function drainedBy(peer: Peer, messages: number): Promise<Drain> {
  const { perSecond, lost, doubled } = await peer.drain(messages, JSON.parse(event));
  return { name: peer.name, perSecond, sent: messages - lost - doubled };
}

/** The same claim and the same mark, one after the other on one connection, and nothing else. */
async function byHand(database: TestDatabase, messages: number): Promise<Drain> {
  await fill(database, messages);
  const connection = await createConnection(database.url);
  let sent = 0;
  try {
    await connection.query('SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED');
    const steady = new Steady(messages);
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
      steady.done(done.affectedRows);
    }
    return { name: 'by hand', perSecond: steady.pace().perSecond, sent };
  } finally {
    await connection.end();
  }
}

function report(wakes: readonly number[], drains: readonly Drain[], messages: number) {
  const sorted = [...wakes].sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
  const of = (name: string) => drains.filter((drain) => drain.name === name);
  const ratio = (other: string) => {
    const others = of(other);
    if (others.length === 0) return null;
    return median(of('the relay').map(({ perSecond }, round) => perSecond / (others[round]?.perSecond ?? Number.NaN)));
  };
  const lost = drains.reduce((sum, { sent }) => sum + messages - sent, 0);
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
        rows: ['by hand', 'the relay', ...peerNames].map((name) => [
          name,
          of(name).length === 0 ? 'NOT MEASURED' : rate(median(of(name).map(({ perSecond }) => perSecond))),
        ]),
      },
    ],
    targets: [
      atMost('commit to handler, p50 in ms', 5, at(0.5)),
      atMost('commit to handler, p99 in ms', 30, at(0.99)),
      atLeast('the relay / by hand, messages per second', 0.75, ratio('by hand')),
      ...peerNames.map((peer) => atLeast(`the relay / ${peer}, messages per second`, 1, ratio(peer))),
    ],
    verdicts: [
      { name: 'every message is sent and marked', ok: lost === 0, detail: `${drains.length} drains: ${lost} missing` },
    ],
    figures: { wakes: sorted, drains },
  };
}
