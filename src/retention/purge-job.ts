/** One kind of rows that are taken out when they are old. */
export interface PurgeJob {
  /** Its name in events and counts: the table, and the status where that matters. */
  readonly name: string;
  /** Takes out at most `limit` rows in one transaction. */
  step(limit: number): Promise<PurgeStep>;
}

export interface PurgeStep {
  readonly purged: number;
  /** False: nothing is old enough any more. True also where nothing of a batch could be taken. */
  readonly more: boolean;
}

/** Over a number of milliseconds, bound once: what is older may go. */
export const cutoff = 'UTC_TIMESTAMP(3) - INTERVAL ? MICROSECOND';

export function places(values: readonly unknown[]): string {
  return values.map(() => '?').join(', ');
}
