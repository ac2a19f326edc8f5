/** What a series of samples does over time. */
export interface Trend {
  readonly first: number;
  readonly last: number;
  /** Of the line that fits best through the samples after the warm-up, per minute. */
  readonly perMinute: number;
  /** What that line climbs from its first sample to its last. */
  readonly climb: number;
  /** How far samples lie from the line, as a standard deviation. */
  readonly noise: number;
  readonly grows: boolean;
}

/** The first third is warm-up: caches fill, connections open, code is compiled. */
export const warmUpShare = 1 / 3;

/**
 * A series grows when its line climbs by more than `allowed`, and by more than three times what single samples lie beside
 * it: one spike is no growth, and a slow climb of something that is as a rule steady is.
 *
 * @param values one sample each `everyMs`
 * @param allowed in the unit of the values; too small, and a cache that fills late fails the soak
 */
export function trendOf(values: readonly number[], everyMs: number, allowed: number): Trend {
  const kept = values.slice(Math.floor(values.length * warmUpShare));
  const count = kept.length;
  const middle = (count - 1) / 2;
  const mean = kept.reduce((sum, value) => sum + value, 0) / Math.max(1, count);
  let covariance = 0;
  let variance = 0;
  for (const [at, value] of kept.entries()) {
    covariance += (at - middle) * (value - mean);
    variance += (at - middle) ** 2;
  }
  const slope = variance === 0 ? 0 : covariance / variance;
  const squares = kept.reduce((sum, value, at) => sum + (value - mean - slope * (at - middle)) ** 2, 0);
  const noise = Math.sqrt(squares / Math.max(1, count - 2));
  const climb = slope * Math.max(0, count - 1);
  return {
    first: kept[0] ?? 0,
    last: kept.at(-1) ?? 0,
    perMinute: slope * (60_000 / everyMs),
    climb,
    noise,
    grows: climb > allowed && climb > 3 * noise,
  };
}

const bars = '▁▂▃▄▅▆▇█';

/** All samples side by side, the lowest as the lowest bar. */
export function chartOf(values: readonly number[]): string {
  const low = Math.min(...values);
  const span = Math.max(...values) - low;
  return values.map((value) => bars[span === 0 ? 0 : Math.round(((value - low) / span) * (bars.length - 1))]).join('');
}
