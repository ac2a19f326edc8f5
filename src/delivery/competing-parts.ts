import type { DataSource } from 'typeorm';
import type { MailroomEvents } from '../observability/index.js';
import type { Candidate, DueMessage } from './candidate.js';
import type { ClaimStore } from './claim.store.js';
import type { HeldClaim } from './claims-in-hand.js';
import type { Crowds } from './crowds.js';
import type { EntityOrderStore } from './entity-order.store.js';
import type { HandlerSession } from './handler-session.js';
import type { ClosedOff, LaneHandler, Permit, Readiness } from './lane-handler.js';
import type { NeighbourLookup } from './neighbours.js';
import type { OneByOne } from './one-by-one.js';
import type { OutcomeBatch } from './outcome-batch.js';
import type { OutcomeWriter } from './outcome-writer.js';
import type { Kind } from './paused-kinds.js';
import type { Stragglers } from './stragglers.js';

/** What the engine asks a box whose consumers compete. All but `putOff` is answered from memory. */
export interface CompetingBox {
  /** Messages of one kind can be handled or cannot, together. */
  kindOf(message: DueMessage): string;
  readiness(message: DueMessage): Readiness;
  /** True: after a failure the order unit stays closed until a person decides. */
  parksOn(source: string): boolean;
  /** Kinds that are not even looked at. */
  paused(): readonly Kind[];
  /**
   * Gives messages of one kind, of which some were read, a later due time; returns how many. They are at a limit or
   * behind a breaker, or nothing here knows them ('unknown').
   */
  putOff(lane: number, messages: readonly DueMessage[], why: ClosedOff | 'unknown'): Promise<number>;
  /** Milliseconds until messages that were put off for a limit are due again; null: none are. */
  resumeInMs(lane: number): number | null;
}

/** What competing consumers of one box work with. */
export interface CompetingParts {
  readonly box: CompetingBox;
  /** Who claims: goes to `claimed_by`. */
  readonly owner: string;
  readonly store: ClaimStore;
  readonly order: EntityOrderStore;
  readonly crowds: Crowds;
  readonly oneByOne: OneByOne;
  /** Null: the box is not ordered. */
  readonly neighbours: NeighbourLookup | null;
  readonly writer: OutcomeWriter;
  readonly successes: OutcomeBatch;
  readonly stragglers: Stragglers;
  readonly events: Pick<MailroomEvents, 'emit'>;
  readonly dataSource: DataSource;
  newSession(): HandlerSession;
}

export interface CompetingOptions {
  /** Messages claimed together at most. */
  readonly batchSize: number;
  /** Attempts, or sends, at the same time; asked before each start. */
  concurrency(): number;
  /** Claim length. */
  readonly claimMs: number;
  /** Timeouts in a row after which nothing is claimed for `pauseMs`. */
  readonly timeoutsPerRound: number;
  /** How long a lane that had nothing to claim is left alone, unless it is woken. */
  readonly pauseMs: number;
  /** False: a wake changes nothing, and each lane gives one batch per `pauseMs`. */
  readonly continuous: boolean;
  /** Lanes to look at, in turn. A box without lanes says [0]. */
  lanes(): readonly number[];
}

/** A message that is ours, waiting for a free place or in work. */
export interface InHand {
  readonly candidate: Candidate;
  readonly handler: LaneHandler;
  readonly permit: Permit;
  readonly claim: HeldClaim;
  readonly attempt: number;
}

/** What came of a job. */
export interface JobEnd {
  /** Messages that do not hold back their order unit any more. */
  readonly closed: readonly string[];
  readonly timedOut: boolean;
}

/** How long work goes on. */
export interface Until {
  /** Aborted: what is in work is given up. */
  readonly deadline: AbortSignal;
  /** True: what is in work ends by itself, and nothing more is begun. */
  stopping(): boolean;
}

/** How a box does its work. */
export interface CompetingWork {
  /** Which of the messages whose turn it is are done together: the first one, perhaps with others. */
  together(turn: readonly InHand[]): readonly InHand[];
  /** Does them and writes what came of it. */
  run(job: readonly InHand[], until: Until): Promise<JobEnd>;
}
