import type { DataSource } from 'typeorm';
import type { LeaseKeeper } from '../lease/index.js';
import type { MailroomEvents } from '../observability/index.js';
import type { ClosedOffKinds } from './closed-off-kinds.js';
import type { Crowds } from './crowds.js';
import type { EntityOrderStore } from './entity-order.store.js';
import type { GroupLockStore } from './group-lock.store.js';
import type { HandlerSession } from './handler-session.js';
import type { Claim, LaneStore } from './lane.store.js';
import type { LaneBatchStore } from './lane-batch.store.js';
import type { LaneCompletion } from './lane-completion.js';
import type { LaneBox } from './lane-handler.js';
import type { OneByOne } from './one-by-one.js';
import type { RecoveryStore } from './recovery.store.js';
import type { Slots } from './slots.js';
import type { Solitude } from './solitude.js';
import type { Stragglers } from './stragglers.js';
import type { UnknownTypes } from './unknown-types.js';

export interface LaneRoundOptions {
  readonly batchSize: number;
  readonly handlerTimeoutMs: number;
  readonly timeoutsPerRound: number;
  /** Claim length of handlers that are not transactional. */
  readonly orphanAfterMs: number;
  /** Nothing else of this process runs beside this lane, so a message that ends the process can be blamed for it. */
  isOnlyLane(): boolean;
  /** True when this instance has more lanes than its share and this one should go. Asked between messages. */
  shouldGiveBack(lane: number): boolean;
}

/** Everything a lane works with; shared by all lanes of a box but for the session. */
export interface LaneParts {
  readonly box: LaneBox;
  readonly keeper: LeaseKeeper;
  readonly store: LaneStore;
  readonly order: EntityOrderStore;
  readonly crowds: Crowds;
  readonly recovery: RecoveryStore;
  readonly completion: LaneCompletion;
  readonly batches: LaneBatchStore;
  readonly groups: GroupLockStore;
  readonly oneByOne: OneByOne;
  readonly unknown: UnknownTypes;
  readonly closedOff: ClosedOffKinds;
  readonly stragglers: Stragglers;
  readonly solitude: Solitude;
  readonly slots: Slots;
  readonly events: MailroomEvents;
  readonly dataSource: DataSource;
  newSession(): HandlerSession;
  leaseName(lane: number): string;
}

/** What one round shares with its attempts. */
export interface LaneContext {
  readonly lane: number;
  readonly parts: LaneParts;
  readonly options: LaneRoundOptions;
  /** Claims in work, to be extended when the lease is renewed. */
  readonly running: Map<string, Claim>;
  /** Aborted: claim nothing more. */
  readonly stopping: AbortSignal;
  /** Aborted: handlers are given up. */
  readonly deadline: AbortSignal;
}
