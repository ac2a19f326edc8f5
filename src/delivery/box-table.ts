import type { MappedColumns } from './mapped-columns.js';

/**
 * The table of one box, as the engine's statements need it. Every name is an identifier that was checked when the
 * options were parsed, every expression and word is a constant of ours; none of them is a value.
 */
export interface BoxTable extends MappedColumns {
  readonly name: string;
  readonly id: string;
  /** Column with the hash of the order unit while the message is not finished. */
  readonly open: string;
  readonly finishedAt: string;
  /** Begins with the status, then the lane if there are lanes, then due time and id. */
  readonly claimIndex: string;
  readonly openIndex: string;
  /** Column of the lane; null: the box is one queue. */
  readonly lane: string | null;
  /**
   * Column by which the unfinished messages of an order unit go, before the id; null: by id alone. Messages without a value
   * go first.
   */
  readonly sequence: string | null;
  /** What a message is, as expressions over alias `m`: who it comes from, and what picks its handler. */
  readonly source: string;
  readonly type: string;
  readonly words: StatusWords;
  /** Further columns that a message needs when it is handled, as a SELECT list over alias `m`. */
  readonly payload: string;
  /** Those of them that events tell of, see `ToldMessage`. */
  readonly told: string;
}

/** How the box calls a message that is in somebody's hands, and the two ends. `pending` and `held` are the same in both. */
export interface StatusWords {
  readonly working: string;
  readonly done: string;
  readonly failed: string;
}

const identifier = /^[A-Za-z_][A-Za-z0-9_$]{0,63}$/;

/** Quotes a table or column name. @throws RangeError for anything that is not a plain identifier */
export function quoteIdentifier(name: string): string {
  if (!identifier.test(name)) throw new RangeError(`not a plain SQL identifier: ${JSON.stringify(name)}`);
  return `\`${name}\``;
}

/** The condition, over alias `m`, that keeps a statement within one lane, and its value; nothing for a box without lanes. */
export function inLane(
  { lane: column }: BoxTable,
  lane: number,
): { readonly sql: string; readonly values: readonly number[] } {
  return column === null ? { sql: '', values: [] } : { sql: `AND m.${column} = ?`, values: [lane] };
}
