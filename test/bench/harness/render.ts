import type { PartReport, Table, Target, Verdict } from './part.js';

/** The report as text for a terminal. */
export function renderText({ tables, targets, verdicts }: PartReport): string {
  return [...tables, ...targetTables(targets), ...verdictTables(verdicts)].map(textTable).join('\n\n');
}

/** The report as Markdown. */
export function renderMarkdown({ tables, targets, verdicts }: PartReport): string {
  return [...tables, ...targetTables(targets), ...verdictTables(verdicts)].map(markdownTable).join('\n\n');
}

function targetTables(targets: readonly Target[]): Table[] {
  if (targets.length === 0) return [];
  const rows = targets.map(({ name, wanted, measured, met }) => [
    name,
    wanted,
    measured ?? 'NOT MEASURED',
    met ? 'met' : 'MISSED',
  ]);
  return [{ title: 'Targets', columns: ['target', 'wanted', 'measured', ''], rows }];
}

function verdictTables(verdicts: readonly Verdict[]): Table[] {
  if (verdicts.length === 0) return [];
  const rows = verdicts.map(({ name, ok, detail }) => [name, ok ? 'ok' : 'FAILED', detail]);
  return [{ title: 'Correctness', columns: ['what', 'verdict', ''], rows }];
}

function textTable({ title, columns, rows }: Table): string {
  const lines = [columns, ...rows];
  const widths = columns.map((_, at) => Math.max(...lines.map((line) => (line[at] ?? '').length)));
  const text = (line: readonly string[]) =>
    `  ${widths.map((width, at) => pad(line[at] ?? '', width, isNumber(rows, at))).join('  ')}`.trimEnd();
  return [title, ...lines.map(text)].join('\n');
}

function markdownTable({ title, columns, rows }: Table): string {
  const text = (line: readonly string[]) => `| ${columns.map((_, at) => line[at] ?? '').join(' | ')} |`;
  const rule = `|${columns.map((_, at) => (isNumber(rows, at) ? ' --: |' : ' --- |')).join('')}`;
  return [`**${title}**`, '', text(columns), rule, ...rows.map(text)].join('\n');
}

function pad(text: string, width: number, right: boolean): string {
  return right ? text.padStart(width) : text.padEnd(width);
}

function isNumber(rows: readonly (readonly string[])[], at: number): boolean {
  return rows.length > 0 && rows.every((row) => /^(?:[\d,.]+(?: \S+)?|–|)$/.test(row[at] ?? ''));
}
