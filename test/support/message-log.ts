import { DataSource, type MigrationInterface, type QueryRunner } from 'typeorm';
import { type AdoptTableOptions, adoptTable, mailroomMigrations } from '../../migrations/index.js';
import { createTestDatabase, type TestDatabase } from './database.js';

/** A log table as teams have it: camelCase, utf8mb3, a status of its own, written and handled by old code. */
export const createMessageLog = `CREATE TABLE message_log (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT,
  msgStr TEXT CHARACTER SET utf8mb3 NOT NULL,
  msgType VARCHAR(50) CHARACTER SET utf8mb3 NULL,
  status TINYINT NOT NULL DEFAULT 0,
  createTime DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
  PRIMARY KEY (id),
  KEY byTime (createTime)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3`;

export const logColumns = { body: 'msgStr', receivedAt: 'createTime', status: 'mailroom_status' } as const;
export const logTable = { name: 'message_log', columns: logColumns } as const;

export const adoption = (options: Partial<AdoptTableOptions> = {}) =>
  adoptTable({ table: 'message_log', columns: logColumns, log: () => undefined, ...options });

/** What the old code does. */
export const oldInsert = "INSERT INTO message_log (msgStr, msgType, status) VALUES (?, 'order', 1)";

/** A database with the log, `history` rows in it, and mailroom's own tables. */
export async function databaseWithLog(name: string, history = 3): Promise<TestDatabase> {
  const database = await createTestDatabase(name);
  await database.query(createMessageLog);
  for (let n = 0; n < history; n++) await database.query(oldInsert, [`{"type":"order","n":${n}}`]);
  await migrate(database, (runner) => new (mailroomMigrations()[0] as new () => MigrationInterface)().up(runner));
  return database;
}

/** Runs a migration, or anything else that needs a query runner, on a data source of its own. */
export async function migrate<T>(database: TestDatabase, work: (runner: QueryRunner) => Promise<T>): Promise<T> {
  const dataSource = await new DataSource(database.options).initialize();
  const runner = dataSource.createQueryRunner();
  try {
    return await work(runner);
  } finally {
    await runner.release();
    await dataSource.destroy();
  }
}
