import type { Flavour, TestDatabase } from '../database.js';

// TypeORM's own record of what it has run is not part of the schema.
const FOREIGN_TABLE = 'migrations';

const TABLES = `
SELECT table_name AS name, engine AS engine, row_format AS rowFormat, table_collation AS collation
FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name <> ? ORDER BY table_name`;

const COLUMNS = `
SELECT table_name AS tableName, column_name AS name, column_type AS type, is_nullable AS nullable,
  column_default AS defaultValue, character_set_name AS charset, collation_name AS collation, extra AS extra
FROM information_schema.columns WHERE table_schema = DATABASE() ORDER BY table_name, ordinal_position`;

const INDEXES = `
SELECT table_name AS tableName, index_name AS name, non_unique AS nonUnique, column_name AS columnName, sub_part AS prefix
FROM information_schema.statistics WHERE table_schema = DATABASE()
ORDER BY table_name, index_name <> 'PRIMARY', index_name, seq_in_index`;

// A check's name is unique per table on MariaDB and per database on MySQL: only MariaDB says the table here.
const CHECKS: Record<Flavour, string> = {
  mariadb: `
SELECT table_name AS tableName, constraint_name AS name, check_clause AS clause
FROM information_schema.check_constraints WHERE constraint_schema = DATABASE() ORDER BY table_name, constraint_name`,
  mysql: `
SELECT t.table_name AS tableName, c.constraint_name AS name, c.check_clause AS clause
FROM information_schema.check_constraints c
JOIN information_schema.table_constraints t USING (constraint_schema, constraint_name)
WHERE c.constraint_schema = DATABASE() ORDER BY t.table_name, c.constraint_name`,
};

interface TableRow {
  readonly name: string;
  readonly engine: string;
  readonly rowFormat: string;
  readonly collation: string;
}

interface ColumnRow {
  readonly tableName: string;
  readonly name: string;
  readonly type: string;
  readonly nullable: 'YES' | 'NO';
  readonly defaultValue: string | null;
  readonly charset: string | null;
  readonly collation: string | null;
  readonly extra: string;
}

interface IndexRow {
  readonly tableName: string;
  readonly name: string;
  readonly nonUnique: string | number;
  readonly columnName: string;
  readonly prefix: string | number | null;
}

interface CheckRow {
  readonly tableName: string;
  readonly name: string;
  readonly clause: string;
}

/**
 * The database's tables, indexes and settings as SQL that creates them again. The text depends on the schema and on the
 * flavour, not on the server's version: it is made from information_schema, without what versions print differently
 * (display widths, quoting, names of default collations).
 */
export async function dumpSchema(database: TestDatabase): Promise<string> {
  const tables = await database.query<TableRow>(TABLES, [FOREIGN_TABLE]);
  const columns = await database.query<ColumnRow>(COLUMNS);
  const indexes = await database.query<IndexRow>(INDEXES);
  const checks = await database.query<CheckRow>(CHECKS[database.flavour]);
  const statements = tables.map((table) => {
    const ofTable = <Row extends { readonly tableName: string }>(rows: readonly Row[]) =>
      rows.filter((row) => row.tableName === table.name);
    const lines = [
      ...ofTable(columns).map((column) => columnLine(column, table, database.flavour)),
      ...indexLines(ofTable(indexes)),
      ...ofTable(checks).map((check) => `CONSTRAINT ${check.name} CHECK (${check.clause.replaceAll('`', '')})`),
    ];
    const charset = table.collation.split('_')[0];
    const options = `ENGINE=${table.engine} ROW_FORMAT=${table.rowFormat.toUpperCase()} CHARACTER SET ${charset} COLLATE ${table.collation}`;
    return `CREATE TABLE ${table.name} (\n${lines.map((line) => `  ${line}`).join(',\n')}\n) ${options};\n`;
  });
  return [...statements, ...(await settingLines(database))].join('\n');
}

function columnLine(column: ColumnRow, table: TableRow, flavour: Flavour): string {
  const differs = column.collation !== null && column.collation !== table.collation;
  const type = column.type.replace(/\b((?:tiny|small|medium|big)?int)\(\d+\)/, '$1');
  return [
    column.name,
    type,
    ...(differs ? [`CHARACTER SET ${column.charset} COLLATE ${column.collation}`] : []),
    column.nullable === 'YES' ? 'NULL' : 'NOT NULL',
    ...defaultOf(column, flavour),
    ...(column.extra.includes('auto_increment') ? ['AUTO_INCREMENT'] : []),
    ...(/on update/i.test(column.extra) ? [column.extra] : []),
  ].join(' ');
}

/** MariaDB tells a default as SQL, and NULL as a word. MySQL tells its bare value, and marks expressions in `extra`. */
function defaultOf({ defaultValue, type, extra }: ColumnRow, flavour: Flavour): string[] {
  if (defaultValue === null || (flavour === 'mariadb' && defaultValue === 'NULL')) return [];
  const isSql = flavour === 'mariadb' || extra.includes('DEFAULT_GENERATED') || /^(\w*int|decimal)\b/.test(type);
  return [`DEFAULT ${isSql ? defaultValue : `'${defaultValue.replaceAll("'", "''")}'`}`];
}

function indexLines(rows: readonly IndexRow[]): string[] {
  const names = [...new Set(rows.map((row) => row.name))];
  return names.map((name) => {
    const parts = rows.filter((row) => row.name === name);
    const columns = parts.map((part) => (part.prefix === null ? part.columnName : `${part.columnName}(${part.prefix})`));
    const unique = Number(parts[0]?.nonUnique) === 0;
    const kind = name === 'PRIMARY' ? 'PRIMARY KEY' : `${unique ? 'UNIQUE KEY' : 'KEY'} ${name}`;
    return `${kind} (${columns.join(', ')})`;
  });
}

async function settingLines(database: TestDatabase): Promise<string[]> {
  const rows = await database.query<{ name: string; value: string }>('SELECT name, value FROM mailroom_setting ORDER BY name');
  return rows.map(({ name, value }) => `INSERT INTO mailroom_setting (name, value) VALUES ('${name}', '${value}');\n`);
}
