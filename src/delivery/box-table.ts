/**
 * The table of one box, as the engine's statements need it. Every name is an identifier that was checked when the
 * options were parsed; none of them is a value.
 */
export interface BoxTable {
  readonly name: string;
  readonly id: string;
  /** Column with the hash of the order unit while the message is not finished. */
  readonly open: string;
  readonly finishedAt: string;
  readonly claimIndex: string;
  readonly openIndex: string;
  /** Further columns that a message needs when it is handled, as a SELECT list over alias `m`. */
  readonly payload: string;
}

const identifier = /^[A-Za-z_][A-Za-z0-9_$]{0,63}$/;

/** Quotes a table or column name. @throws RangeError for anything that is not a plain identifier */
export function quoteIdentifier(name: string): string {
  if (!identifier.test(name)) throw new RangeError(`not a plain SQL identifier: ${JSON.stringify(name)}`);
  return `\`${name}\``;
}
