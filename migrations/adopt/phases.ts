import type { QueryRunner } from 'typeorm';
import { withMigrationLock } from '../migration-lock.js';
import { ADOPTED_COLUMNS, ADOPTED_INDEXES, type AdoptedColumnName, COLUMN_MARK } from './adopted-columns.js';
import { archiveAll, countUnfinished } from './leave.js';
import { alterOnline, type OnlineOptions } from './online-alter.js';
import {
  type AdoptedTable,
  defaultStatus,
  missingParts,
  nameOf,
  readTable,
  refusal,
  refuseUnfit,
} from './table-state.js';

export interface PhaseOptions extends OnlineOptions {
  /** Constant defaults of the added columns `source` and `type`, for rows that others insert. */
  readonly defaults: Readonly<Partial<Record<'source' | 'type', string>>>;
}

/** What follows ALTER TABLE for the columns that are missing; null: none is. */
export function addColumns(
  adopted: AdoptedTable,
  missing: readonly AdoptedColumnName[],
  defaults: PhaseOptions['defaults'],
): string | null {
  const added = missing.flatMap((column) => {
    const { definition } = ADOPTED_COLUMNS[column];
    if (definition === null) return [];
    const value = column === 'source' || column === 'type' ? defaults[column] : undefined;
    const own = value === undefined ? definition : definition.replace("DEFAULT ''", `DEFAULT '${value}'`);
    return [`ADD COLUMN \`${nameOf(adopted, column)}\` ${own} COMMENT '${COLUMN_MARK}'`];
  });
  return added.length === 0 ? null : added.join(',\n  ');
}

export function addIndex(adopted: AdoptedTable, name: string): string {
  const index = ADOPTED_INDEXES.find((one) => one.name === name);
  if (!index) throw new RangeError(name);
  const columns = index.columns.map((column) => `\`${nameOf(adopted, column)}\``).join(', ');
  return `ADD ${index.unique ? 'UNIQUE ' : ''}KEY ${name} (${columns})`;
}

/** What follows ALTER TABLE to change what a row gets that names no status. */
export function setDefault(adopted: AdoptedTable, status: 'success' | 'pending'): string {
  return `ALTER COLUMN \`${nameOf(adopted, 'status')}\` SET DEFAULT '${status}'`;
}

/** Adds what is missing. A table that has it all is left alone. */
export function enterPhase1(queryRunner: QueryRunner, adopted: AdoptedTable, options: PhaseOptions): Promise<boolean> {
  return withMigrationLock(queryRunner, async () => {
    const { table } = adopted;
    const state = await readTable(queryRunner, adopted);
    refuseUnfit(adopted, state);
    const missing = missingParts(adopted, state);
    // Before anything is changed.
    for (const name of missing.indexes)
      if (state.indexes.has(name)) throw refusal(`${table} has another index named ${name}: rename it`);
    const columns = addColumns(adopted, missing.columns, options.defaults);
    if (columns !== null) await alterOnline(queryRunner, table, columns, 'definition', options);
    for (const name of missing.indexes)
      await alterOnline(queryRunner, table, addIndex(adopted, name), 'index', options);
    return columns !== null || missing.indexes.length > 0;
  });
}

/** Rows that are inserted from now on without a status are to be consumed. */
export function enterPhase2(queryRunner: QueryRunner, adopted: AdoptedTable, options: PhaseOptions): Promise<void> {
  return withMigrationLock(queryRunner, async () => {
    const state = await readTable(queryRunner, adopted);
    const missing = missingParts(adopted, state);
    if (missing.columns.length + missing.indexes.length > 0)
      throw refusal(
        `phase 1 of ${adopted.table} is not complete: ${[...missing.columns, ...missing.indexes].join(', ')} missing. Run phase 1 first`,
      );
    if (defaultStatus(adopted, state) === 'pending') return;
    await alterOnline(queryRunner, adopted.table, setDefault(adopted, 'pending'), 'definition', options);
  });
}

export function leavePhase2(
  queryRunner: QueryRunner,
  adopted: AdoptedTable,
  force: boolean,
  options: PhaseOptions,
): Promise<void> {
  return withMigrationLock(queryRunner, async () => {
    const state = await readTable(queryRunner, adopted);
    if (defaultStatus(adopted, state) !== 'pending') return;
    if (!force) await refuseUnfinished(queryRunner, adopted, 'nobody would handle them once the old code is back');
    await alterOnline(queryRunner, adopted.table, setDefault(adopted, 'success'), 'definition', options);
  });
}

/** Takes away what phase 1 added, and nothing else. */
export function leavePhase1(
  queryRunner: QueryRunner,
  adopted: AdoptedTable,
  force: boolean,
  options: PhaseOptions,
): Promise<void> {
  return withMigrationLock(queryRunner, async () => {
    const { table } = adopted;
    const state = await readTable(queryRunner, adopted);
    if (defaultStatus(adopted, state) === 'pending') throw refusal(`phase 2 of ${table} is in force: revert it first`);
    const added = Object.keys(ADOPTED_COLUMNS)
      .map((column) => nameOf(adopted, column as AdoptedColumnName))
      .filter((name) => state.columns.get(name.toLowerCase())?.isMailrooms);
    const complete = missingParts(adopted, state).columns.length === 0;
    if (complete) {
      if (!force)
        await refuseUnfinished(
          queryRunner,
          adopted,
          'what is to be done with them would be forgotten with the columns',
        );
      await archiveAll(queryRunner, adopted, state, options.log);
    }
    for (const { name } of ADOPTED_INDEXES)
      if (state.indexes.has(name)) await alterOnline(queryRunner, table, `DROP KEY ${name}`, 'index', options);
    if (added.length > 0)
      await alterOnline(
        queryRunner,
        table,
        added.map((name) => `DROP COLUMN \`${name}\``).join(', '),
        'definition',
        options,
      );
  });
}

async function refuseUnfinished(queryRunner: QueryRunner, adopted: AdoptedTable, why: string): Promise<void> {
  const unfinished = await countUnfinished(queryRunner, adopted);
  if (unfinished === 0) return;
  throw refusal(
    `${adopted.table} has ${unfinished} messages that are not finished, and ${why}. Let them finish first, or set ` +
      'MAILROOM_FORCE_DOWN=true: they are kept, in the table or in inbox_message_archive',
  );
}
