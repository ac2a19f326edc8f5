/** A table for people: a line per row, columns as wide as their widest cell. */
export function table(rows: readonly Readonly<Record<string, unknown>>[], columns: readonly string[]): string {
  const lines = [columns, ...rows.map((row) => columns.map((column) => plain(row[column])))];
  const widths = columns.map((_, n) => Math.max(...lines.map((line) => line[n]?.length ?? 0)));
  return lines
    .map((line) =>
      line
        .map((cell, n) => cell.padEnd(widths[n] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** One object for people: a line per field. */
export function fields(value: object): string {
  const entries = Object.entries(value);
  const width = Math.max(...entries.map(([name]) => name.length));
  return entries.map(([name, field]) => `${name.padEnd(width)}  ${plain(field)}`.trimEnd()).join('\n');
}

/** One line, and nothing in it that steers a terminal: error texts and keys come from outside. */
function plain(value: unknown): string {
  if (value === null || value === undefined) return '-';
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value);
  return text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, '?');
}

/** What a command says: JSON on standard output with `--json`, else text. */
export function say(json: boolean | undefined, value: unknown, text: string): void {
  process.stdout.write(`${json ? JSON.stringify(value) : text}\n`);
}
