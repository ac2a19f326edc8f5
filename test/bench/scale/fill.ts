import type { TestDatabase } from '../../support/database.js';
import { numbers } from '../../support/plans.js';

export interface Filling {
  readonly type: string;
  readonly status: 'success' | 'pending';
  readonly count: number;
  /** How long they have been due, as an SQL interval. */
  readonly age: string;
  /** All of one entity. Default: without one. */
  readonly entity?: string;
}

/** Rows that one statement copies: more would be one long transaction in the binary log. */
const step = 100_000;

/** Puts messages into the table, a millisecond apart: the first 10,000 are made, the others are copies of what is there. */
export async function fill(database: TestDatabase, { type, status, count, age, entity }: Filling): Promise<void> {
  const columns = 'source, type, open_entity, body, status, next_attempt_at, received_at';
  const [last] = await database.query<{ id: string }>('SELECT CAST(MAX(id) AS CHAR) AS id FROM inbox_message');
  const before = last?.id ?? '0';
  for (let done = 0; done < count; ) {
    const size = Math.min(step, count - done, Math.max(10_000, done));
    const copied = done >= 10_000;
    await database.query(
      copied
        ? `INSERT INTO inbox_message (${columns})
           SELECT source, type, open_entity, body, status, next_attempt_at + INTERVAL ? * 1000 MICROSECOND, received_at
             FROM inbox_message WHERE id > ? ORDER BY id LIMIT ${size}`
        : `INSERT INTO inbox_message (${columns})
           SELECT 'test', '${type}', ?, '{"type":"${type}"}', '${status}',
                  UTC_TIMESTAMP(3) - INTERVAL ${age} + INTERVAL n * 1000 MICROSECOND, UTC_TIMESTAMP(3)
             FROM ${numbers(done, Math.min(10_000, count - done))} ORDER BY n`,
      copied ? [done, before] : [entity ?? null],
    );
    done += copied ? size : Math.min(10_000, count - done);
  }
}
