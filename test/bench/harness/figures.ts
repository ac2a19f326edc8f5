/** The middle of the values; of an even number of them the mean of the two in the middle. @throws when there are none */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const upper = sorted[sorted.length >> 1];
  const lower = sorted[(sorted.length - 1) >> 1];
  if (upper === undefined || lower === undefined) throw new Error('median of no values');
  return (lower + upper) / 2;
}

/** `12,345`, and `9.8` below a hundred. */
export function rate(perSecond: number): string {
  return perSecond < 100 ? perSecond.toFixed(1) : Math.round(perSecond).toLocaleString('en-US');
}

export function milliseconds(ms: number): string {
  return `${ms.toFixed(ms < 10 ? 2 : 1)} ms`;
}

/**
 * The order of `names` in one round: each begins once, so that none always runs first, on a server that is still cold, or
 * always behind the same other one.
 */
export function rotated<T>(names: readonly T[], round: number): T[] {
  const start = names.length === 0 ? 0 : round % names.length;
  return [...names.slice(start), ...names.slice(0, start)];
}
