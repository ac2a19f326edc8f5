import { ADOPTED_COLUMNS, ADOPTED_INDEXES, type AdoptedColumnName, COLUMN_MARK } from './adopted-columns.js';

/** Asks the database; a query runner of TypeORM does. */
export interface Queries {
  // biome-ignore lint/suspicious/noExplicitAny: as TypeORM declares it
  query(sql: string, values?: any[]): Promise<any>;
}

/** Which table, and what it calls the columns. */
export interface AdoptedTable {
  readonly table: string;
  /** As in `inbox.table.columns`: one of yours that is used as it is, or another name for one that is added. */
  readonly columns: Readonly<Partial<Record<AdoptedColumnName, string>>>;
}

export interface ColumnState {
  readonly type: string;
  readonly charset: string | null;
  readonly hasDefaultOf: string | null;
  readonly isMailrooms: boolean;
  readonly isAutoIncrement: boolean;
  readonly isPrimary: boolean;
}

/** A table as it is now. */
export interface TableState {
  /** By name in lower case. */
  readonly columns: ReadonlyMap<string, ColumnState>;
  /** Columns of each index, in order, in lower case. */
  readonly indexes: ReadonlyMap<string, readonly string[]>;
  /** Names of those that are unique. */
  readonly unique: ReadonlySet<string>;
  readonly engine: string;
  readonly isPartitioned: boolean;
}

export const columnNames = Object.keys(ADOPTED_COLUMNS) as AdoptedColumnName[];

export function nameOf({ columns }: AdoptedTable, column: AdoptedColumnName): string {
  return columns[column] ?? ADOPTED_COLUMNS[column].column;
}

/** @throws Error when the table is not there, or is none that can be adopted */
export async function readTable(queryRunner: Queries, adopted: AdoptedTable): Promise<TableState> {
  const { table } = adopted;
  const [found] = (await queryRunner.query(
    `SELECT t.engine AS engine, t.create_options AS options FROM information_schema.tables t WHERE t.table_schema = DATABASE() AND t.table_name = ?`,
    [table],
  )) as { engine: string | null; options: string | null }[];
  if (!found) throw refusal(`there is no table ${table} in this database. Write the name of the table to adopt`);
  const columns: Row[] = await queryRunner.query(
    `SELECT c.column_name AS name, c.column_type AS type, c.character_set_name AS charset, c.column_default AS value,
            c.column_comment AS note, c.extra AS extra, c.column_key AS in_key
       FROM information_schema.columns c WHERE c.table_schema = DATABASE() AND c.table_name = ?`,
    [table],
  );
  const parts: { name: string; part: string; not_unique: number | string }[] = await queryRunner.query(
    `SELECT s.index_name AS name, s.column_name AS part, s.non_unique AS not_unique FROM information_schema.statistics s
      WHERE s.table_schema = DATABASE() AND s.table_name = ? ORDER BY s.index_name, s.seq_in_index`,
    [table],
  );
  const indexes = new Map<string, string[]>();
  for (const { name, part } of parts) indexes.set(name, [...(indexes.get(name) ?? []), String(part).toLowerCase()]);
  return {
    columns: new Map(columns.map((row) => [row.name.toLowerCase(), stateOf(row)])),
    indexes,
    unique: new Set(parts.filter((part) => Number(part.not_unique) === 0).map(({ name }) => name)),
    engine: String(found.engine),
    isPartitioned: /\bpartitioned\b/i.test(found.options ?? ''),
  };
}

interface Row {
  readonly name: string;
  readonly type: string;
  readonly charset: string | null;
  readonly value: string | null;
  readonly note: string;
  readonly extra: string;
  readonly in_key: string;
}

function stateOf({ type, charset, value, note, extra, in_key: key }: Row): ColumnState {
  return {
    type: type.toLowerCase(),
    charset,
    // MariaDB shows a default as it would be written.
    hasDefaultOf: value === null ? null : value.replace(/^'(.*)'$/s, '$1'),
    isMailrooms: note === COLUMN_MARK,
    isAutoIncrement: extra.toLowerCase().includes('auto_increment'),
    isPrimary: key === 'PRI',
  };
}

/** @throws Error naming the first thing that is in the way, and what to do about it */
export function refuseUnfit(adopted: AdoptedTable, state: TableState): void {
  const { table } = adopted;
  if (state.engine.toLowerCase() !== 'innodb')
    throw refusal(
      `${table} is a table of ${state.engine}, and messages need transactions: ALTER TABLE ${table} ENGINE=InnoDB`,
    );
  // The server wants the columns of the partitions in each unique key, and then copies in two partitions would not meet.
  if (state.isPartitioned)
    throw refusal(
      `${table} is partitioned, and a unique key on (source, dedup_key) is not possible there. Take a table without partitions, ` +
        `or give messages one of mailroom's own and leave ${table} as it is`,
    );
  const primary = state.indexes.get('PRIMARY') ?? [];
  const id = nameOf(adopted, 'id').toLowerCase();
  if (primary.length !== 1 || primary[0] !== id || !state.columns.get(id)?.isAutoIncrement)
    throw refusal(
      `the primary key of ${table} has to be one AUTO_INCREMENT column, and it is (${primary.join(', ') || 'none'}). ` +
        `Name it if it is not "id": columns: { id: '...' }`,
    );
  for (const column of columnNames) {
    const name = nameOf(adopted, column);
    const found = state.columns.get(name.toLowerCase());
    const { yours } = ADOPTED_COLUMNS[column];
    if (!found || found.isMailrooms) continue;
    if (!yours || (adopted.columns[column] === undefined && column !== 'id'))
      throw refusal(
        `${table} has a column ${name} of its own. Give ours another name: columns: { ${column}: 'mailroom_${ADOPTED_COLUMNS[column].column}' }` +
          (yours ? `, or write columns: { ${column}: '${name}' } if it is to be used as it is` : ''),
      );
    if (!yours.test(found.type))
      throw refusal(
        `${table}.${name} is ${found.type}, which cannot be the ${column} of a message. Name another column, or none`,
      );
    if (column === 'body' && found.charset !== null && !/^(?:utf8(?:mb3|mb4)?|ascii|binary)$/.test(found.charset))
      throw refusal(
        `${table}.${name} keeps its text in ${found.charset}, so bytes would not come back as they were stored. ` +
          'Leave body out of columns, and bodies get a column of their own',
      );
  }
}

/** What phase 1 has not done yet; empty: it is complete. */
export function missingParts(
  adopted: AdoptedTable,
  state: TableState,
): { columns: AdoptedColumnName[]; indexes: string[] } {
  return {
    columns: columnNames.filter((column) => !state.columns.has(nameOf(adopted, column).toLowerCase())),
    indexes: ADOPTED_INDEXES.filter(({ name, columns, unique }) => {
      const wanted = columns.map((column) => nameOf(adopted, column).toLowerCase());
      return state.indexes.get(name)?.join() !== wanted.join() || (unique && !state.unique.has(name));
    }).map(({ name }) => name),
  };
}

export function defaultStatus(adopted: AdoptedTable, state: TableState): string | null {
  return state.columns.get(nameOf(adopted, 'status').toLowerCase())?.hasDefaultOf ?? null;
}

export function refusal(text: string): Error {
  return new Error(`mailroom migrations: ${text}.`);
}
