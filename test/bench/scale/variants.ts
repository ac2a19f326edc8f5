import type { BenchLength } from '../harness/part.js';

/** What stands in the table beside the messages that are measured. */
export interface Variant {
  readonly name: string;
  /** Variants of one group are compared with its first one, the smallest. */
  readonly group: 'finished' | 'waiting' | 'hot' | 'mass';
  readonly finished: number;
  /** Due messages of a type that is handled, younger than those measured: they wait behind them. */
  readonly waiting: number;
  /** Waiting messages of one entity; they are those that are measured. 0: none, and those measured have no entity. */
  readonly hot: number;
  /** What stands at the head of the queue and cannot be handled. */
  readonly mass: { readonly type: MassType; readonly count: number } | null;
}

/** `nobody`: a type without a handler; `broken`: its breaker is open; `stuck`: one entity whose head waits for its retry. */
export type MassType = 'nobody' | 'broken' | 'stuck';

const few = 1_000;
const nothing = { finished: few, waiting: 0, hot: 0, mass: null };

export function variants(length: BenchLength): Variant[] {
  const [medium, large, hot, mass] =
    length === 'quick' ? [5_000, 20_000, 2_000, 2_000] : [100_000, 1_000_000, 20_000, 100_000];
  const finished = [few, medium, large, ...(length === 'full' ? [10_000_000] : [])];
  return [
    ...finished.map((count) => ({
      ...nothing,
      name: `${text(count)} finished`,
      group: 'finished' as const,
      finished: count,
    })),
    ...[few, medium, large].map((count) => ({
      ...nothing,
      name: `${text(count)} waiting`,
      group: 'waiting' as const,
      waiting: count,
    })),
    { ...nothing, name: `one entity with ${text(hot)} waiting`, group: 'hot', hot },
    { ...nothing, name: `${text(mass)} of an unknown type`, group: 'mass', mass: { type: 'nobody', count: mass } },
    { ...nothing, name: `${text(mass)} behind an open breaker`, group: 'mass', mass: { type: 'broken', count: mass } },
    { ...nothing, name: `${text(mass)} of a blocked entity`, group: 'mass', mass: { type: 'stuck', count: mass } },
  ];
}

function text(count: number): string {
  return count.toLocaleString('en-US');
}
