import type { DataSource } from 'typeorm';
import type { MailroomEvents } from '../observability/index.js';
import type { Candidate } from './candidate.js';
import type { ClaimStore } from './claim.store.js';
import type { HeldClaim } from './claims-in-hand.js';
import type { ClosedOffKinds } from './closed-off-kinds.js';
import type { EntityOrderStore } from './entity-order.store.js';
import type { HandlerSession } from './handler-session.js';
import type { LaneBox, LaneHandler, Permit } from './lane-handler.js';
import type { NeighbourLookup } from './neighbours.js';
import type { OutcomeBatch } from './outcome-batch.js';
import type { OutcomeWriter } from './outcome-writer.js';
import type { Stragglers } from './stragglers.js';
import type { UnknownTypes } from './unknown-types.js';

/** What competing consumers of one box work with. */
export interface CompetingParts {
  readonly box: LaneBox;
  /** Who claims: goes to `claimed_by`. */
  readonly owner: string;
  readonly store: ClaimStore;
  readonly order: EntityOrderStore;
  /** Null: the box is not ordered. */
  readonly neighbours: NeighbourLookup | null;
  readonly writer: OutcomeWriter;
  readonly successes: OutcomeBatch;
  readonly unknown: UnknownTypes;
  readonly closedOff: ClosedOffKinds;
  readonly stragglers: Stragglers;
  readonly events: MailroomEvents;
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

/** How a box does its work. */
export interface CompetingWork {
  /** How many of the messages whose turn it is are done together: a prefix of `turn`, at least one. */
  together(turn: readonly InHand[]): number;
  /** Does them and writes what came of it. `deadline` aborted: they are given up. */
  run(job: readonly InHand[], deadline: AbortSignal): Promise<JobEnd>;
}
