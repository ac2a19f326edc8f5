import { InvalidOptionsError } from '../errors/invalid-options.error.js';

/** Milliseconds as a number, or text of a number and a unit: '250ms', '30s', '1.5m', '2h', '7d'. */
export type Duration = number | string;

const unitMs = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const pattern = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)$/;

/** The longest delay that a timer keeps: setTimeout fires at once above 2^31 - 1 ms. */
export const longestTimerMs = 2_147_483_647;

/**
 * Milliseconds of a duration, rounded to whole ones.
 * @param path the option's path, named in the error
 * @throws InvalidOptionsError for anything that is not a finite duration of zero or more
 */
export function parseDuration(value: Duration, path: string): number {
  const ms = typeof value === 'number' ? value : milliseconds(value);
  if (ms === undefined || !Number.isFinite(ms) || ms < 0) {
    throw new InvalidOptionsError(
      path,
      value,
      "write milliseconds (30000) or a number with a unit ('30s', '5m', '2h', '7d')",
    );
  }
  return Math.round(ms);
}

function milliseconds(value: unknown): number | undefined {
  const match = typeof value === 'string' ? pattern.exec(value.trim()) : null;
  if (!match) return undefined;
  return Number(match[1]) * unitMs[match[2] as keyof typeof unitMs];
}
