/** What a table that was adopted calls columns of ours: our name, then its quoted one. Those that are not in it have our name. */
export type ColumnNames = ReadonlyMap<string, string>;

/** How statements over a table name its columns. */
export interface MappedColumns {
  /** A column's name in the table, ready to be written into a statement. */
  column(name: string): string;
  /**
   * A part of a statement over alias `m`: what is written as `m.status` becomes the table's own name of that column. What is
   * put in by `${}` stays as it is. A SELECT list has to say `AS` what a column is to be called.
   */
  mapped(parts: TemplateStringsArray, ...values: readonly unknown[]): string;
}

const reference = /\bm\.([a-z_]+)/g;

/** A table of ours has nothing to translate, so that costs nothing. */
export function mapColumns(names: ColumnNames): MappedColumns {
  const column = (name: string) => names.get(name) ?? name;
  const translate =
    names.size === 0
      ? (part: string) => part
      : (part: string) => part.replace(reference, (_, name: string) => `m.${column(name)}`);
  return {
    column,
    mapped: (parts, ...values) =>
      parts.map((part, n) => translate(part) + (n < values.length ? String(values[n]) : '')).join(''),
  };
}

/** The table that messages are kept in, ours or one that was adopted. */
export interface MessageTable extends MappedColumns {
  readonly name: string;
}

/** @param columns our names to those of the table, which are checked when options are parsed */
export function messageTable(name: string, columns: ColumnNames = new Map()): MessageTable {
  return { name, ...mapColumns(columns) };
}
