import type { EntityManager } from 'typeorm';
import type { Candidate, DueMessage } from './candidate.js';

/** Bodies of a batch together; one message may have more by itself. Large: many lanes at work use much memory. */
export const mostBytes = 16 * 1_048_576;

/** What a batch handler gets from the engine for one call. */
export interface BatchTools {
  manager(): EntityManager;
  readonly signal: AbortSignal;
  /** Records the failure of one message of the call; the others may still succeed. */
  fail(id: string, error: unknown): void;
  readonly started: () => void;
}

/** How messages of one kind are handled together. */
export interface BatchRules {
  readonly size: number;
  readonly maxWaitMs: number;
  /** dead: a call that throws sends all of its messages to failed. */
  readonly onFailure: 'single' | 'dead';
  /** Null: there are no groups. Rejects for database trouble only. */
  groupOf(message: Candidate): Promise<string | null>;
  /** What it takes in memory while it is handled. */
  bytesOf(message: DueMessage): number;
  invoke(messages: readonly Candidate[], tools: BatchTools): unknown;
}
