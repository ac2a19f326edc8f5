import { inboxNeed, migrateUp, passSchemaGate, type Row, type SchemaReader } from '../database/index.js';
import { inboxNeeds, type MessageTable } from '../delivery/index.js';

/**
 * @returns what to warn of
 * @throws SchemaMismatchError when the inbox cannot work with the tables as they are
 */
export async function checkInboxSchema(reader: SchemaReader, table: MessageTable, enabled: boolean): Promise<string[]> {
  const isOwn = table.name === inboxNeed.table;
  const remedy = isOwn
    ? migrateUp
    : `${migrateUp}, and phase 1 of adoptTable({ table: '${table.name}', ... }) with the same columns as inbox.table`;
  const warnings = await passSchemaGate(reader, inboxNeeds(table), remedy);
  if (!enabled) return warnings;
  const status = table.column('status').replaceAll('`', '');
  const [row] = await reader.rows<Row & { value: string | null }>(
    `SELECT c.column_default AS value FROM information_schema.columns c
      WHERE c.table_schema = DATABASE() AND c.table_name = ? AND c.column_name = ?`,
    [table.name, status],
  );
  if (row?.value?.replaceAll("'", '') !== 'success') return warnings;
  return [
    ...warnings,
    `rows that others insert into ${table.name} count as handled: the default of ${status} is 'success' still. What the inbox ` +
      'receives is consumed. Run phase 2 of adoptTable when no instance of the old code is left',
  ];
}
