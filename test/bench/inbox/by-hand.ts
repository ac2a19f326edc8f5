import { randomBytes } from 'node:crypto';
import { type Connection, createConnection, type ResultSetHeader, type RowDataPacket } from 'mysql2/promise';
import type { TestDatabase } from '../../support/database.js';
import { Steady } from '../harness/steady.js';
import { checkInbox, fillInbox, writeEffect } from './orders.js';
import type { Handled } from './ours.js';

/** Messages read ahead, or claimed together. */
const batch = 100;

/**
 * The limit of the ordered lanes: on each connection begin, business row, mark and claim of the next, commit, one after
 * the other through mysql2 alone. Each connection has the messages of one lane.
 */
export async function oneByOne(database: TestDatabase, messages: number, connections: number): Promise<Handled> {
  await fillInbox(database, messages, connections);
  const steady = new Steady(messages);
  const lanes = Array.from({ length: connections }, async (_, lane) => {
    const connection = await connect(database);
    try {
      await drainLane(connection, lane, steady);
    } finally {
      await connection.end();
    }
  });
  await Promise.all(lanes);
  return { ...steady.pace(), ...(await checkInbox(database, messages, true)) };
}

interface Ahead extends RowDataPacket {
  readonly id: string;
  readonly entity: string;
  readonly body: Buffer;
}

async function drainLane(connection: Connection, lane: number, steady: Steady): Promise<void> {
  const lease = await takeLease(connection, lane);
  let from = '1970-01-01 00:00:00.000';
  for (;;) {
    const [ahead] = await connection.execute<(Ahead & { due: string })[]>(
      `SELECT CAST(id AS CHAR) AS id, CAST(entity_key AS CHAR) AS entity, body, CAST(next_attempt_at AS CHAR) AS due
         FROM inbox_message FORCE INDEX (inbox_claim)
        WHERE status = 'pending' AND lane = ? AND next_attempt_at <= UTC_TIMESTAMP(3) AND next_attempt_at >= ?
        ORDER BY next_attempt_at, id LIMIT ${batch}`,
      [lane, from],
    );
    const [first] = ahead;
    if (!first) return;
    from = first.due;
    let token = randomBytes(16);
    await connection.execute(
      `UPDATE inbox_message m FORCE INDEX (PRIMARY) JOIN mailroom_lease l ON l.name = ? AND l.fence = 1 AND l.owner = 'bench'
          SET m.status = 'processing', m.attempts = m.attempts + 1, m.claim_token = ?, m.claimed_by = 'bench',
              m.claimed_until = l.held_until, m.updated_at = UTC_TIMESTAMP(3)
        WHERE m.id = ? AND m.status = 'pending'`,
      [lease, token, first.id],
    );
    for (const [at, { id, entity, body }] of ahead.entries()) {
      const next = ahead[at + 1];
      const nextToken = randomBytes(16);
      const { amount } = JSON.parse(body.toString('utf8'));
      await connection.query('START TRANSACTION');
      await connection.execute(writeEffect, [id, entity, amount]);
      const changed = next
        ? await markAndClaim(connection, lease, { id, token }, { id: next.id, token: nextToken })
        : await mark(connection, lease, { id, token });
      if (changed !== (next ? 2 : 1)) throw new Error('by hand: a claim was lost');
      await connection.query('COMMIT');
      steady.done();
      token = nextToken;
    }
  }
}

interface Claim {
  readonly id: string;
  readonly token: Buffer;
}

async function markAndClaim(connection: Connection, lease: string, done: Claim, next: Claim): Promise<number> {
  const [{ affectedRows }] = await connection.execute<ResultSetHeader>(
    `UPDATE inbox_message m FORCE INDEX (PRIMARY) JOIN mailroom_lease l ON l.name = ? AND l.fence = 1 AND l.owner = 'bench'
        SET m.status = IF(m.id = ?, 'success', 'processing'), m.attempts = IF(m.id = ?, m.attempts, m.attempts + 1),
            m.open_entity = IF(m.id = ?, NULL, m.open_entity), m.finished_at = IF(m.id = ?, UTC_TIMESTAMP(3), m.finished_at),
            m.claim_token = IF(m.id = ?, NULL, ?), m.claimed_by = IF(m.id = ?, NULL, 'bench'),
            m.claimed_until = IF(m.id = ?, NULL, l.held_until), m.updated_at = UTC_TIMESTAMP(3)
      WHERE m.id IN (?, ?) AND ((m.id = ? AND m.status = 'processing' AND m.claim_token = ?)
         OR (m.id = ? AND m.status = 'pending' AND m.next_attempt_at <= UTC_TIMESTAMP(3)))`,
    [
      lease,
      ...[done.id, done.id, done.id, done.id],
      ...[done.id, next.token, done.id, done.id],
      ...[done.id, next.id, done.id, done.token, next.id],
    ],
  );
  return affectedRows;
}

async function mark(connection: Connection, lease: string, done: Claim): Promise<number> {
  const [{ affectedRows }] = await connection.execute<ResultSetHeader>(
    `UPDATE inbox_message m FORCE INDEX (PRIMARY) JOIN mailroom_lease l ON l.name = ? AND l.fence = 1 AND l.owner = 'bench'
        SET m.status = 'success', m.open_entity = NULL, m.finished_at = UTC_TIMESTAMP(3), m.claim_token = NULL,
            m.claimed_by = NULL, m.claimed_until = NULL, m.updated_at = UTC_TIMESTAMP(3)
      WHERE m.id = ? AND m.status = 'processing' AND m.claim_token = ?`,
    [lease, done.id, done.token],
  );
  return affectedRows;
}

async function takeLease(connection: Connection, lane: number): Promise<string> {
  const name = `bench-lane-${lane}`;
  await connection.query(
    `INSERT INTO mailroom_lease (name, owner, fence, held_until) VALUES (?, 'bench', 1, UTC_TIMESTAMP(3) + INTERVAL 1 HOUR)
         ON DUPLICATE KEY UPDATE held_until = UTC_TIMESTAMP(3) + INTERVAL 1 HOUR`,
    [name],
  );
  return name;
}

/** The limit of the competing mode: claim fifty in one transaction, mark them in one statement, on one connection. */
export async function inBatches(database: TestDatabase, messages: number): Promise<Handled> {
  await fillInbox(database, messages, 1);
  const steady = new Steady(messages);
  const connection = await connect(database);
  try {
    for (;;) {
      const token = randomBytes(16);
      await connection.query('START TRANSACTION');
      const [rows] = await connection.execute<Ahead[]>(
        `SELECT CAST(m.id AS CHAR) AS id, m.body FROM inbox_message m FORCE INDEX (inbox_claim)
          WHERE m.status = 'pending' AND m.lane = 0 AND m.next_attempt_at <= UTC_TIMESTAMP(3)
          ORDER BY m.next_attempt_at, m.id LIMIT ${batch} FOR UPDATE SKIP LOCKED`,
      );
      const ids = rows.map(({ id }) => id);
      if (ids.length > 0)
        await connection.query(
          `UPDATE inbox_message m FORCE INDEX (PRIMARY) SET m.status = 'processing', m.attempts = m.attempts + 1, m.claim_token = ?,
                  m.claimed_by = 'bench', m.claimed_until = UTC_TIMESTAMP(3) + INTERVAL 5 MINUTE, m.updated_at = UTC_TIMESTAMP(3)
            WHERE m.id IN (?) AND m.status = 'pending'`,
          [token, ids],
        );
      await connection.query('COMMIT');
      if (ids.length === 0) break;
      for (const { body } of rows) JSON.parse(body.toString('utf8'));
      await connection.query(
        `UPDATE inbox_message m FORCE INDEX (PRIMARY) SET m.status = 'success', m.open_entity = NULL, m.finished_at = UTC_TIMESTAMP(3),
                m.claim_token = NULL, m.claimed_by = NULL, m.claimed_until = NULL, m.updated_at = UTC_TIMESTAMP(3)
          WHERE m.id IN (?) AND m.status = 'processing' AND m.claim_token = ?`,
        [ids, token],
      );
      steady.done(ids.length);
    }
  } finally {
    await connection.end();
  }
  return { ...steady.pace(), ...(await checkInbox(database, messages, false)) };
}

async function connect(database: TestDatabase): Promise<Connection> {
  const connection = await createConnection({ uri: database.url, dateStrings: true });
  await connection.query('SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED');
  return connection;
}
