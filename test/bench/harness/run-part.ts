import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createTestDatabase, migrated } from '../../support/database.js';
import { describeMachine, type Machine, machineLines } from './machine.js';
import type { BenchLength, Part, PartReport } from './part.js';
import { renderMarkdown, renderText } from './render.js';

export interface RunOptions {
  readonly length: BenchLength;
  readonly redisUrl: string;
  /** A file that holds a list, one entry for each part and database; this one is added. */
  readonly json?: string | undefined;
  /** A Markdown page into which the tables are put. */
  readonly page?: URL | undefined;
  /** Takes the tables. */
  readonly print: (text: string) => void;
  /** Takes the progress. */
  readonly log: (line: string) => void;
}

/** Runs a part on a database of its own and tells what it found. False when a verdict failed. */
export async function runPart(name: string, part: Part, options: RunOptions): Promise<boolean> {
  const { length, redisUrl, json, page, print, log } = options;
  const database = await createTestDatabase(`bench_${name}`);
  try {
    await migrated(database);
    const machine = await describeMachine(database);
    const report = await part.run({ database, redisUrl, length, log });
    print(`\n${[`${name}: ${part.about}`, ...machineLines(machine)].join('\n')}\n\n${renderText(report)}`);
    if (json !== undefined) addTo(json, { part: name, length, machine, ...report });
    if (page !== undefined) {
      const text = section(`${name} on ${machine.database}`, machine, report);
      writeFileSync(page, recorded(readFileSync(page, 'utf8'), `${name} on ${database.flavour}`, text));
    }
    return report.verdicts.every(({ ok }) => ok);
  } finally {
    await database.drop();
  }
}

function addTo(file: string, entry: unknown): void {
  const before: unknown[] = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : [];
  writeFileSync(file, `${JSON.stringify([...before, entry], null, 2)}\n`);
}

function section(heading: string, machine: Machine, report: PartReport): string {
  const day = new Date().toISOString().slice(0, 10);
  return [`### ${heading}`, [...machineLines(machine), day].join('  \n'), renderMarkdown(report)].join('\n\n');
}

/** Puts `text` between the marks of `name`, in place of what stood there, or at the end where there are no marks yet. */
export function recorded(page: string, name: string, text: string): string {
  const [begin, end] = [`<!-- bench: ${name} -->`, `<!-- end of ${name} -->`];
  const block = `${begin}\n${text}\n${end}`;
  const from = page.indexOf(begin);
  const to = page.indexOf(end);
  if (from === -1 || to < from) return `${page.trimEnd()}\n\n${block}\n`;
  return page.slice(0, from) + block + page.slice(to + end.length);
}
