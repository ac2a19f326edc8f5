import type { TestDatabase } from '../../support/database.js';
import { numbers } from '../../support/plans.js';

/** The message that ours and the peers handle: a JSON order event of 280 bytes. */
export const event = JSON.stringify({
  type: 'order.paid',
  orderId: 'order-0000001',
  occurredAt: '2026-01-01T00:00:00.000Z',
  amount: 12_345,
  note: 'x'.repeat(280 - 108),
});

/** Messages of one entity, one after the other. */
const perEntity = 10;

/** The table that the handler writes one row into. */
export async function createEffects(database: TestDatabase): Promise<void> {
  await database.query(
    `CREATE TABLE bench_effect (
       id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, message_id BIGINT UNSIGNED NOT NULL,
       entity VARCHAR(32) NOT NULL, amount INT NOT NULL)`,
  );
}

/** What the handler writes; values: message id, entity, amount. */
export const writeEffect = 'INSERT INTO bench_effect (message_id, entity, amount) VALUES (?, ?, ?)';

/**
 * So many due messages, and nothing else. Each entity has ten, which follow one another at a distance, as in a queue of
 * many orders. Due times are a millisecond apart.
 */
export async function fillInbox(database: TestDatabase, messages: number, lanes: number): Promise<void> {
  await database.query('TRUNCATE TABLE inbox_message');
  await database.query('TRUNCATE TABLE bench_effect');
  const entities = Math.max(lanes, Math.ceil(messages / perEntity / lanes) * lanes);
  for (let done = 0; done < messages; done += 10_000) {
    await database.query(
      `INSERT INTO inbox_message
         (source, type, dedup_key, entity_key, open_entity, lane, body, content_type, status, next_attempt_at, received_at)
       SELECT 'test', 'order.paid', CONCAT('d', n), CONCAT('order-', n MOD ${entities}), 1000000 + n MOD ${entities}, n MOD ${lanes}, ?,
              'application/json', 'pending', UTC_TIMESTAMP(3) - INTERVAL 1 HOUR + INTERVAL n * 1000 MICROSECOND, UTC_TIMESTAMP(3)
         FROM ${numbers(done, Math.min(10_000, messages - done))} ORDER BY n`,
      [event],
    );
  }
  await database.query('ANALYZE TABLE inbox_message');
}

/** What was wrong with a run. */
export interface Wrong {
  readonly lost: number;
  readonly doubled: number;
  readonly disordered: number;
}

/** What the tables say: every message a success, and where the handler writes, one row for each, in order in each entity. */
export async function checkInbox(database: TestDatabase, messages: number, withEffects: boolean): Promise<Wrong> {
  const [row] = await database.query<{ done: number }>(
    "SELECT COUNT(*) AS done FROM inbox_message WHERE status = 'success' AND attempts = 1",
  );
  const lost = messages - Number(row?.done);
  if (!withEffects) return { lost, doubled: 0, disordered: 0 };
  const [effects] = await database.query<{ written: number; different: number; disordered: number }>(
    `SELECT COUNT(*) AS written, COUNT(DISTINCT message_id) AS different, COALESCE(SUM(before_it > message_id), 0) AS disordered
       FROM (SELECT message_id, LAG(message_id) OVER (PARTITION BY entity ORDER BY id) AS before_it FROM bench_effect) t`,
  );
  return {
    lost: lost + (messages - Number(effects?.different)),
    doubled: Number(effects?.written) - Number(effects?.different),
    disordered: Number(effects?.disordered),
  };
}
