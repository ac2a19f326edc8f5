import type { EntityManager } from 'typeorm';
import type { RetryPolicy } from '../message/retry-policy.js';
import type { Candidate } from './candidate.js';

/** What a handler gets from the engine for one attempt. */
export interface AttemptTools {
  /** The manager of the message's transaction; asking for it opens nothing, its first statement does. */
  manager(): EntityManager;
  readonly signal: AbortSignal;
  readonly attempt: number;
}

/** How messages of one kind are handled. */
export interface LaneHandler {
  readonly timeoutMs: number;
  readonly policy: RetryPolicy;
  /** False: its writes are not joined with the mark, and its claim outlives a change of the lane's holder. */
  readonly transactional: boolean;
  invoke(message: Candidate, tools: AttemptTools): unknown;
}

/** What the engine asks the box. All of it is answered from memory. */
export interface LaneBox {
  /** Null: this instance has no handler for the kind; another, perhaps newer, one may have. */
  handlerFor(source: string, type: string): LaneHandler | null;
  /** True: after a failure the entity stays closed until a person decides. */
  parksOn(source: string): boolean;
}
