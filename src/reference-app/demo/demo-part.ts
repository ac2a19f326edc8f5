import type { Connection } from 'mysql2/promise';
import type { Instance } from './instance.js';

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
  readonly pushes: number;
  /** Ids of the messages that were acknowledged as stored. */
  readonly storedIds: readonly string[];
  readonly duplicates: number;
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

export interface DemoSurroundings {
  readonly instances: readonly Instance[];
  readonly database: Connection;
}
