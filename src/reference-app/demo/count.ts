import type { Connection } from 'mysql2/promise';

export const unfinished = "SELECT COUNT(*) AS n FROM message_log WHERE status NOT IN ('success', 'failed')";

/** Of the outbox. */
export const unsent = "SELECT COUNT(*) AS n FROM outbox_message WHERE status NOT IN ('sent', 'dead')";

/** The `n` of the first row. */
export async function count(database: Connection, sql: string, values: unknown[] = []): Promise<number> {
  const [rows] = await database.query(sql, values);
  return Number((rows as { n: number }[])[0]?.n ?? 0);
}
