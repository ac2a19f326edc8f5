import type { TestDatabase } from '../../support/database.js';

/** So long at most: a server that is not at rest by then is measured as it is. */
const longestMs = 20_000;
const fewPages = 200;
const fewEntries = 1_000;

/**
 * Waits until the server has purged what was changed and written its pages: otherwise the first rounds pay for the filling
 * of the tables, and those filled last the most.
 */
export async function settle(database: TestDatabase): Promise<void> {
  const until = performance.now() + longestMs;
  while (performance.now() < until) {
    const dirty = await numberOf(database, "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'", 'Value');
    const history = await numberOf(
      database,
      "SELECT COUNT AS n FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rseg_history_len'",
      'n',
    );
    if (dirty <= fewPages && history <= fewEntries) return;
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
}

async function numberOf(database: TestDatabase, sql: string, column: string): Promise<number> {
  const [row] = await database.query<Record<string, unknown>>(sql);
  return Number(row?.[column] ?? 0);
}
