import { type AdoptTableOptions, checked } from './adopt-table.js';
import { ADOPTED_INDEXES } from './adopted-columns.js';
import { addColumns, addIndex, setDefault } from './phases.js';
import {
  columnNames,
  defaultStatus,
  missingParts,
  nameOf,
  type Queries,
  readTable,
  refuseUnfit,
} from './table-state.js';

/** How far an adoption is. */
export interface AdoptionState {
  /** Columns and indexes that phase 1 has still to add. */
  readonly missing: readonly string[];
  /** What a row gets that names no status: 'pending' after phase 2. Null: the column is not there yet. */
  readonly defaultStatus: string | null;
}

/**
 * The statements of a phase for a tool of your own, with the cheapest ALGORITHM that servers offer for each. Columns that you
 * named are taken for there already when they are yours to name: id, body, receivedAt and the like.
 */
export function adoptionSql(options: AdoptTableOptions, phase: 1 | 2, present: readonly string[] = []): string[] {
  const adopted = checked(options);
  const table = `\`${adopted.table}\``;
  if (phase === 2) return [`ALTER TABLE ${table} ${setDefault(adopted, 'pending')}, ALGORITHM=INSTANT`];
  const there = new Set(present.map((name) => name.toLowerCase()));
  const missing = columnNames.filter((column) => column !== 'id' && !there.has(nameOf(adopted, column).toLowerCase()));
  const columns = addColumns(adopted, missing, options.defaults ?? {});
  return [
    ...(columns === null ? [] : [`ALTER TABLE ${table}\n  ${columns},\n  ALGORITHM=INSTANT`]),
    ...ADOPTED_INDEXES.map(
      ({ name }) => `ALTER TABLE ${table} ${addIndex(adopted, name)}, ALGORITHM=INPLACE, LOCK=NONE`,
    ),
  ];
}

/** @throws Error when the table is not there or cannot be adopted, with what to do */
export async function adoptionState(queryRunner: Queries, options: AdoptTableOptions): Promise<AdoptionState> {
  const adopted = checked(options);
  const state = await readTable(queryRunner, adopted);
  refuseUnfit(adopted, state);
  const { columns, indexes } = missingParts(adopted, state);
  return {
    missing: [...columns.map((column) => nameOf(adopted, column)), ...indexes],
    defaultStatus: defaultStatus(adopted, state),
  };
}
