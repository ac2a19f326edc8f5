import type { MigrationInterface, QueryRunner } from 'typeorm';
import { SET_SCHEMA_VERSION, TABLES } from './1764547200000-tables.js';
import { withMigrationLock } from './migration-lock.js';

const COLUMN_OF_TABLE = `
SELECT COUNT(*) AS present FROM information_schema.columns
WHERE table_schema = DATABASE() AND table_name = ? AND column_name = ?`;

// Both are answered from the claim index, which begins with the status.
const UNFINISHED = {
  inbox_message: `
SELECT COUNT(*) AS unfinished FROM inbox_message WHERE status IN ('pending', 'processing', 'held')`,
  outbox_message: `
SELECT COUNT(*) AS unfinished FROM outbox_message WHERE status IN ('pending', 'sending', 'parked', 'held')`,
} as const;

/**
 * Creates every table of mailroom, or drops them all.
 *
 * Both directions may be run by several processes at once and again after a failure in the middle: they take the
 * migration lock, and each statement does nothing where it was done before.
 */
export class CreateMailroomTables1764547200000 implements MigrationInterface {
  readonly name = 'CreateMailroomTables1764547200000';

  /**
   * @throws Error when a table of the same name belongs to somebody else.
   */
  async up(queryRunner: QueryRunner): Promise<void> {
    await withMigrationLock(queryRunner, async () => {
      for (const table of TABLES) {
        await queryRunner.query(table.create);
        await refuseForeignTable(queryRunner, table);
      }
      await queryRunner.query(SET_SCHEMA_VERSION);
    });
  }

  /**
   * Stop the application first: a message that arrives between the check and the drop is lost with its table.
   *
   * @throws Error while messages wait or are in work, unless the environment says `MAILROOM_FORCE_DOWN=true`.
   */
  async down(queryRunner: QueryRunner): Promise<void> {
    await withMigrationLock(queryRunner, async () => {
      if (process.env.MAILROOM_FORCE_DOWN !== 'true') await refuseUnfinished(queryRunner);
      for (const table of [...TABLES].reverse()) await queryRunner.query(`DROP TABLE IF EXISTS ${table.name}`);
    });
  }
}

/** CREATE TABLE IF NOT EXISTS is silent about a table that was there before: it may be one of the application's own. */
async function refuseForeignTable(queryRunner: QueryRunner, table: (typeof TABLES)[number]): Promise<void> {
  if (await hasColumn(queryRunner, table.name, table.mark)) return;
  throw new Error(
    `mailroom migrations: the database already has a table ${table.name} without the column ${table.mark}. ` +
      'It is not a table of mailroom: rename it, or give mailroom a database of its own.',
  );
}

async function refuseUnfinished(queryRunner: QueryRunner): Promise<void> {
  const counts: string[] = [];
  for (const [table, sql] of Object.entries(UNFINISHED)) {
    // A table is missing when an earlier `down` was cut off.
    if (!(await hasColumn(queryRunner, table, 'status'))) continue;
    const rows: readonly { unfinished: string | number }[] = await queryRunner.query(sql);
    const unfinished = Number(rows[0]?.unfinished ?? 0);
    if (unfinished > 0) counts.push(`${table} has ${unfinished}`);
  }
  if (counts.length === 0) return;
  throw new Error(
    `mailroom migrations: messages are not finished (${counts.join(', ')}), and dropping the tables would lose them. ` +
      'Let them finish first, or set MAILROOM_FORCE_DOWN=true to drop them.',
  );
}

async function hasColumn(queryRunner: QueryRunner, table: string, column: string): Promise<boolean> {
  const rows: readonly { present: string | number }[] = await queryRunner.query(COLUMN_OF_TABLE, [table, column]);
  return Number(rows[0]?.present ?? 0) > 0;
}
