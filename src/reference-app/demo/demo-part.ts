import type { Connection } from 'mysql2/promise';

/** One thing to send, and when it may go. */
export interface Delivery {
  /** Deliveries of one chain go one after the other, each after the receipt of the one before. */
  readonly chain: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** What the two instances answered, by part. */
export interface Sent {
  /** Pushes that were acknowledged with a 2xx. */
  readonly pushes: number;
  /** Ids of the messages that were acknowledged, each once; a duplicate is answered with the id of the first. */
  readonly storedIds: readonly string[];
  readonly duplicates: number;
  /** Pushes whose answer did not come, pushed again: whether they were stored is not known. */
  readonly repeats: number;
  /** Deliveries that were never answered with a 2xx. */
  readonly unacknowledged: number;
}

export interface Verdict {
  /** Acknowledged messages that are not there or not finished, and effects that are missing. */
  readonly lost: number;
  /** Effects that happened more often than there were events. */
  readonly appliedTwice: number;
  /** Messages that this part wants to see as `failed`. */
  readonly plannedFailures: number;
  /** How often this part wants an instance to end. Default 0. */
  readonly plannedCrashes?: number;
  /** What is wrong, in words; empty when nothing is. */
  readonly problems: readonly string[];
}

/** A part of the demo: what it sends, and how it finds out from the tables whether that arrived exactly once. */
export interface DemoPart {
  readonly name: string;
  readonly source: string;
  deliveries(): readonly Delivery[];
  verify(database: Connection, sent: Sent): Promise<Verdict>;
}
