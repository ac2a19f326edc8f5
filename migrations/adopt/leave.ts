import type { QueryRunner } from 'typeorm';
import { ADOPTED_COLUMNS, type AdoptedColumnName } from './adopted-columns.js';
import type { Log } from './online-alter.js';
import { type AdoptedTable, columnNames, nameOf, refusal, type TableState } from './table-state.js';

const BATCH = 500;

/** Messages that wait or are in work. Index: the claim index begins with the status. */
export async function countUnfinished(queryRunner: QueryRunner, adopted: AdoptedTable): Promise<number> {
  const [row] = (await queryRunner.query(
    `SELECT COUNT(*) AS unfinished FROM \`${adopted.table}\` WHERE \`${nameOf(adopted, 'status')}\` IN ('pending', 'processing', 'held')`,
  )) as { unfinished: string | number }[];
  return Number(row?.unfinished ?? 0);
}

/**
 * Copies what the columns that go would take with them into inbox_message_archive: every message that is not a success, and
 * every body that is in a column of mailroom's. By primary key, 500 at a time; a message that was copied before is not copied
 * again.
 */
export async function archiveAll(
  queryRunner: QueryRunner,
  adopted: AdoptedTable,
  state: TableState,
  log: Log,
): Promise<void> {
  const id = `m.\`${nameOf(adopted, 'id')}\``;
  const status = `m.\`${nameOf(adopted, 'status')}\``;
  const body = nameOf(adopted, 'body');
  const ownBody = state.columns.get(body.toLowerCase())?.isMailrooms === true;
  const wanted = ownBody ? `(${status} <> 'success' OR m.\`${body}\` IS NOT NULL)` : `${status} <> 'success'`;
  await refuseWithoutArchive(queryRunner, adopted, wanted);
  const copied = columnNames.filter((column) => column !== 'id');
  const ours = copied.map((column) => `\`${ADOPTED_COLUMNS[column].column}\``).join(', ');
  const theirs = copied.map((column) => keptValue(adopted, column)).join(', ');
  let after = '0';
  let total = 0;
  for (;;) {
    const rows: { id: string }[] = await queryRunner.query(
      `SELECT CAST(${id} AS CHAR) AS id FROM \`${adopted.table}\` m FORCE INDEX (PRIMARY)
        WHERE ${id} > ? AND ${wanted} ORDER BY ${id} LIMIT ${BATCH}`,
      [after],
    );
    const last = rows.at(-1);
    if (!last) break;
    const ids = rows.map((row) => row.id);
    await queryRunner.query(
      `INSERT INTO inbox_message_archive (id, ${ours}, archived_at, reason)
       SELECT ${id}, ${theirs}, UTC_TIMESTAMP(3), ? FROM \`${adopted.table}\` m
        WHERE ${id} IN (${ids.map(() => '?').join(', ')})
          AND NOT EXISTS (SELECT 1 FROM inbox_message_archive a WHERE a.id = ${id} AND a.reason = ?)
        ORDER BY ${id}`,
      [reason(adopted), ...ids, reason(adopted)],
    );
    total += ids.length;
    after = last.id;
    log(`${adopted.table}: ${total} messages are in inbox_message_archive`);
  }
}

function reason({ table }: AdoptedTable): string {
  return `adoption of ${table} was taken back`;
}

/** The archive does not take NULL for a body. */
function keptValue(adopted: AdoptedTable, column: AdoptedColumnName): string {
  const name = `m.\`${nameOf(adopted, column)}\``;
  if (column === 'body') return `COALESCE(CAST(${name} AS BINARY), '')`;
  return column === 'source' || column === 'type' ? `COALESCE(${name}, '')` : name;
}

async function refuseWithoutArchive(queryRunner: QueryRunner, adopted: AdoptedTable, wanted: string): Promise<void> {
  const rows = await queryRunner.query(
    `SELECT 1 AS present FROM information_schema.tables t WHERE t.table_schema = DATABASE() AND t.table_name = 'inbox_message_archive'`,
  );
  if (rows.length > 0) return;
  const some = await queryRunner.query(`SELECT 1 AS some FROM \`${adopted.table}\` m WHERE ${wanted} LIMIT 1`);
  if (some.length > 0)
    throw refusal(
      `${adopted.table} has messages to keep, and there is no inbox_message_archive for them. Run mailroomMigrations() first`,
    );
}
