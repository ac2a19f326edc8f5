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
  /** 1: an INSERT that does not name it fails. */
  readonly required: string;
}

interface IndexRow extends Row {
  readonly table: string;
  readonly name: string;
  /** Null: an expression. */
  readonly part: string | null;
  /** Of a text, so many characters or bytes alone. */
  readonly prefix: string | null;
  readonly not_unique: string;
}

/**
 * Compares the tables with what is needed of them. Empty: all is there.
 * Locks nothing. Two statements, whatever the number of tables.
 */
export async function schemaProblems(reader: SchemaReader, needs: readonly TableNeed[]): Promise<string[]> {
  const tables = needs.map(({ table }) => table);
  const places = tables.map(() => '?').join(', ');
  const columns = await reader.rows<ColumnRow>(
    `SELECT c.table_name AS \`table\`, c.column_name AS name, c.column_type AS type,
            c.is_nullable = 'NO' AND c.column_default IS NULL AND c.extra NOT LIKE '%auto_increment%'
              AND c.extra NOT LIKE '%GENERATED%' AS required
       FROM information_schema.columns c
      WHERE c.table_schema = DATABASE() AND c.table_name IN (${places})`,
    tables,
  );
  const indexes = await reader.rows<IndexRow>(
    `SELECT s.table_name AS \`table\`, s.index_name AS name, s.column_name AS part, s.sub_part AS prefix,
            s.non_unique AS not_unique
       FROM information_schema.statistics s
      WHERE s.table_schema = DATABASE() AND s.table_name IN (${places}) ORDER BY s.table_name, s.index_name, s.seq_in_index`,
    tables,
  );
  return needs.flatMap((need) =>
    problemsOf(
      need,
      columns.filter(({ table }) => isSameName(table, need.table)),
      indexes.filter(({ table }) => isSameName(table, need.table)),
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

/** A server with lower_case_table_names answers in lower case; the query has chosen the tables. */
function isSameName(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase();
}

function problemsOf(need: TableNeed, columns: readonly ColumnRow[], indexes: readonly IndexRow[]): string[] {
  if (columns.length === 0) return [`there is no table ${need.table}`];
  return [...columnProblems(need, columns), ...indexProblems(need, indexes)];
}

function columnProblems({ table, columns: wanted }: TableNeed, columns: readonly ColumnRow[]): string[] {
  const types = new Map(columns.map(({ name, type }) => [name.toLowerCase(), type.toLowerCase()]));
  const ours = new Set(Object.keys(wanted).map((name) => name.toLowerCase()));
  return [
    ...Object.entries(wanted).flatMap(([column, beginnings]) => {
      const type = types.get(column.toLowerCase());
      if (type === undefined) return [`${table} has no column ${column}`];
      return beginnings.split('|').some((beginning) => type.startsWith(beginning))
        ? []
        : [`${table}.${column} is ${type} and should be ${beginnings.replaceAll('|', ' or ')}`];
    }),
    ...columns
      .filter(({ name, required }) => Number(required) === 1 && !ours.has(name.toLowerCase()))
      .map(({ name }) => `${table}.${name} is NOT NULL without a default, and nothing of mailroom gives it a value`),
  ];
}

function indexProblems({ table, indexes: wanted, unique = {} }: TableNeed, indexes: readonly IndexRow[]): string[] {
  const parts = new Map<string, string[]>();
  for (const { name, part, prefix } of indexes) {
    const text = part === null ? 'an expression' : `${part.toLowerCase()}${prefix === null ? '' : `(${prefix})`}`;
    parts.set(name, [...(parts.get(name) ?? []), text]);
  }
  const isNotUnique = (index: string) =>
    indexes.some(({ name, not_unique: not }) => name === index && Number(not) === 1);
  return Object.entries(wanted).flatMap(([index, columns]) => {
    const found = parts.get(index);
    if (found === undefined) return [`${table} has no index ${index} (${columns.join(', ')})`];
    if (found.join() !== columns.map((column) => column.toLowerCase()).join())
      return [`the index ${index} of ${table} is on (${found.join(', ')}) and should be on (${columns.join(', ')})`];
    const consequence = unique[index];
    return consequence !== undefined && isNotUnique(index)
      ? [`the index ${index} of ${table} is not unique: ${consequence}`]
      : [];
  });
}
