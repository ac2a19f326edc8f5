import { SchemaMismatchError } from '../errors/schema-mismatch.error.js';
import type { Row } from './control-connection.js';
import { schemaVersion, type TableNeed } from './table-needs.js';

/** What the gate asks the database with. */
export interface SchemaReader {
  rows<T extends Row>(sql: string, values?: readonly unknown[]): Promise<T[]>;
}

export const migrateUp = 'Run: npx mailroom migrate up --yes --url mysql://user:password@host:3306/database';

interface ColumnRow extends Row {
  readonly table: string;
  readonly name: string;
  readonly type: string;
}

interface IndexRow extends Row {
  readonly table: string;
  readonly name: string;
  readonly part: string;
}

/**
 * Compares the tables with what is needed of them. Empty: all is there.
 * Locks nothing. Two statements, whatever the number of tables.
 */
export async function schemaProblems(reader: SchemaReader, needs: readonly TableNeed[]): Promise<string[]> {
  const tables = needs.map(({ table }) => table);
  const places = tables.map(() => '?').join(', ');
  const columns = await reader.rows<ColumnRow>(
    `SELECT c.table_name AS \`table\`, c.column_name AS name, c.column_type AS type FROM information_schema.columns c
      WHERE c.table_schema = DATABASE() AND c.table_name IN (${places})`,
    tables,
  );
  const indexes = await reader.rows<IndexRow>(
    `SELECT s.table_name AS \`table\`, s.index_name AS name, s.column_name AS part FROM information_schema.statistics s
      WHERE s.table_schema = DATABASE() AND s.table_name IN (${places}) ORDER BY s.table_name, s.index_name, s.seq_in_index`,
    tables,
  );
  return needs.flatMap((need) =>
    problemsOf(
      need,
      columns.filter(({ table }) => table === need.table),
      indexes.filter(({ table }) => table === need.table),
    ),
  );
}

/** The version that the migrations have written down; null: none. */
export async function schemaVersionOf(reader: SchemaReader): Promise<number | null> {
  const [row] = await reader.rows<Row & { value: string | null }>(
    "SELECT value FROM mailroom_setting WHERE name = 'schema_version'",
  );
  return row?.value == null ? null : Number(row.value);
}

/**
 * @returns what to warn of: a newer schema
 * @throws SchemaMismatchError when a statement of ours would fail sooner or later
 */
export async function passSchemaGate(
  reader: SchemaReader,
  needs: readonly TableNeed[],
  remedy: string = migrateUp,
): Promise<string[]> {
  const problems = await schemaProblems(reader, needs);
  if (problems.length > 0) throw new SchemaMismatchError(problems, remedy);
  const version = await schemaVersionOf(reader);
  if (version === null || version < schemaVersion)
    throw new SchemaMismatchError(
      [`the schema has version ${version ?? 'none'}, and ${schemaVersion} is needed`],
      remedy,
    );
  if (version > schemaVersion)
    return [
      `the schema has version ${version}, newer than this release's ${schemaVersion}: that is meant for the time of a rolling deploy or a rollback`,
    ];
  return [];
}

function problemsOf(
  { table, ...need }: TableNeed,
  columns: readonly ColumnRow[],
  indexes: readonly IndexRow[],
): string[] {
  if (columns.length === 0) return [`there is no table ${table}`];
  const types = new Map(columns.map(({ name, type }) => [name.toLowerCase(), type.toLowerCase()]));
  const parts = new Map<string, string[]>();
  for (const { name, part } of indexes) parts.set(name, [...(parts.get(name) ?? []), part.toLowerCase()]);
  return [
    ...Object.entries(need.columns).flatMap(([column, wanted]) => {
      const type = types.get(column.toLowerCase());
      if (type === undefined) return [`${table} has no column ${column}`];
      return wanted.split('|').some((beginning) => type.startsWith(beginning))
        ? []
        : [`${table}.${column} is ${type} and should be ${wanted.replace('|', ' or ')}`];
    }),
    ...Object.entries(need.indexes).flatMap(([index, wanted]) => {
      const found = parts.get(index);
      if (found === undefined) return [`${table} has no index ${index} (${wanted.join(', ')})`];
      const isSame = found.join() === wanted.map((column) => column.toLowerCase()).join();
      return isSame
        ? []
        : [`the index ${index} of ${table} is on (${found.join(', ')}) and should be on (${wanted.join(', ')})`];
    }),
  ];
}
