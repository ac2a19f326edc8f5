import type { TestDatabase } from '../../support/database.js';

/** How much is run: `quick` only shows that everything works, `full` adds the variants that take long. */
export type BenchLength = 'quick' | 'normal' | 'full';

/** What a part gets. */
export interface BenchContext {
  /** Of its own, migrated, dropped afterwards. */
  readonly database: TestDatabase;
  readonly redisUrl: string;
  readonly length: BenchLength;
  /** Progress, one line each, on standard error. */
  readonly log: (line: string) => void;
}

/** A table as it is printed: cells are ready text. */
export interface Table {
  readonly title: string;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** A figure against its limit or its peer of the same run. A missed target is printed and does not fail the bench. */
export interface Target {
  readonly name: string;
  /** What was asked for, for example `>= 0.85`. */
  readonly wanted: string;
  /** What was measured, in the same unit; null: NOT MEASURED, which counts as missed. */
  readonly measured: string | null;
  readonly met: boolean;
}

/** Whether what was measured was also right: lost, doubled, out of order. One that is not ok makes the bench exit with 1. */
export interface Verdict {
  readonly name: string;
  readonly ok: boolean;
  readonly detail: string;
}

/** What a part found on one server. */
export interface PartReport {
  readonly tables: readonly Table[];
  readonly targets: readonly Target[];
  readonly verdicts: readonly Verdict[];
  /** Every single figure, for the JSON file. */
  readonly figures: unknown;
}

/** One part of the bench: the file `test/bench/parts/<name>.ts` exports it as `part`. Adding the file adds the part. */
export interface Part {
  /** One line for the heading. */
  readonly about: string;
  run(context: BenchContext): Promise<PartReport>;
}

/** A target that asks for at least `least`. Null: could not be measured. */
export function atLeast(name: string, least: number, measured: number | null): Target {
  return target(name, `>= ${least}`, measured, (value) => value >= least);
}

/** A target that asks for at most `most`. */
export function atMost(name: string, most: number, measured: number | null): Target {
  return target(name, `<= ${most}`, measured, (value) => value <= most);
}

function target(name: string, wanted: string, measured: number | null, meets: (value: number) => boolean): Target {
  if (measured === null || !Number.isFinite(measured)) return { name, wanted, measured: null, met: false };
  return { name, wanted, measured: measured.toFixed(2), met: meets(measured) };
}
