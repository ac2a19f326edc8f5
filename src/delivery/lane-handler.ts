import type { EntityManager } from 'typeorm';
import type { RetryPolicy } from '../message/retry-policy.js';
import type { AttemptEnd } from './attempt.js';
import type { BatchRules } from './batch-rules.js';
import type { Candidate } from './candidate.js';
import type { Kind } from './paused-kinds.js';

/** What a handler gets from the engine for one attempt. */
export interface AttemptTools {
  /** The manager of the message's transaction; asking for it opens nothing, its first statement does. */
  manager(): EntityManager;
  readonly signal: AbortSignal;
  readonly attempt: number;
  /** The handler is called now, everything before it is done: the moment that a limit per second counts. */
  readonly started?: () => void;
}

/** How messages of one kind are handled. */
export interface LaneHandler {
  readonly timeoutMs: number;
  readonly policy: RetryPolicy;
  /** False: its writes are not joined with the mark, and its claim outlives a change of the lane's holder. */
  readonly transactional: boolean;
  invoke(message: Candidate, tools: AttemptTools): unknown;
  /** Null: its messages are handled one by one. */
  readonly batch: BatchRules | null;
}

/** Leave to make one attempt. It is given back, or it ends, once; what comes after that changes nothing. */
export interface Permit {
  started(): void;
  ended(end: AttemptEnd): void;
  /** The attempt is not made: somebody else moved the message, or it was not claimed. */
  giveBack(): void;
}

/** How messages that are put off for a limit are spread over the time to come. */
export interface Pace {
  /** When the first of them should fall due. */
  delayMs(): number;
  /** How far apart they should fall due. */
  readonly spacingMs: number;
  /** So many were put off, the first by `delayMs`. */
  planned(delayMs: number, count: number): void;
}

/** The kind has a handler, but must not be handled now. */
export interface ClosedOff {
  readonly kind: 'closed-off';
  readonly retryInMs: number;
  /** For the event `put-off`. */
  readonly reason: string;
  /** Null: they all come back together. Otherwise it is a limit, and a short wait for it is worth while. */
  readonly pace: Pace | null;
}

/** Whether messages of a kind can be handled now. */
export type Readiness =
  /** `permit` takes the leave; call it in the same turn of the event loop, or not at all. */
  | { readonly kind: 'ready'; readonly handler: LaneHandler; readonly permit: () => Permit }
  /** This instance has no handler for the kind; another, perhaps newer, one may have. */
  | { readonly kind: 'unknown' }
  /** Somebody paused the kind in this process. */
  | { readonly kind: 'paused' }
  | ClosedOff;

/** What the engine asks the box. All of it is answered from memory. */
export interface LaneBox {
  readiness(source: string, type: string): Readiness;
  /** Pushes of the source are being refused: its retries make room for what came for the first time. */
  isLimited(source: string): boolean;
  /** True: after a failure the entity stays closed until a person decides. */
  parksOn(source: string): boolean;
  /** Kinds that are not even looked at. */
  paused(): readonly Kind[];
}
