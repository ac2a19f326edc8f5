import type { Connection } from 'mysql2/promise';
import { DataSource } from 'typeorm';
import {
  AdoptMessageLog1764633600000,
  messageLog,
} from '../../../migrations/examples/1764633600000-adopt-message-log.js';
import { ConsumeMessageLog1764720000000 } from '../../../migrations/examples/1764720000000-consume-message-log.js';
import { mailroomMigrations, runMigrationsExclusively } from '../../../migrations/index.js';
import { count } from './count.js';

export const historyRows = 1_000;

/** What `inbox.table` is to be. */
export const adoptedTable = JSON.stringify(messageLog);

/** A log table with two years of history, as a team has it before mailroom comes. */
export async function createHistory(database: Connection): Promise<void> {
  await database.query(`CREATE TABLE message_log (
    id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    msgStr MEDIUMTEXT NULL,
    createTime DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP
  )`);
  const rows = Array.from({ length: historyRows }, (_, n) => [`{"type":"order.paid","orderId":"old-${n}"}`]);
  await database.query('INSERT INTO message_log (msgStr) VALUES ?', [rows]);
}

/** Phase 1 with the release that brings mailroom, phase 2 with a later one: here right after each other. */
export async function adoptHistory(url: string): Promise<void> {
  for (const phases of [
    [AdoptMessageLog1764633600000],
    [AdoptMessageLog1764633600000, ConsumeMessageLog1764720000000],
  ]) {
    const dataSource = await new DataSource({
      type: 'mysql',
      url,
      migrations: [...mailroomMigrations(), ...phases],
    }).initialize();
    try {
      await runMigrationsExclusively(dataSource);
    } finally {
      await dataSource.destroy();
    }
  }
}

/** Rows of the history that somebody took for messages. */
export function consumedHistory(database: Connection): Promise<number> {
  return count(
    database,
    `SELECT ${historyRows} - COUNT(*) AS n FROM message_log
      WHERE id <= ${historyRows} AND status = 'success' AND attempts = 0 AND finished_at IS NULL`,
  );
}
