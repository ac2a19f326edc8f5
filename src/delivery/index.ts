/**
 * The engine that both boxes share: take a message, run it, write what came of it, and be right about it.
 *
 *   lane-round     take the lane's lease, then message by message until there is a reason to stop
 *   lane-queue     what is due, in order; followers of a waiting message step aside; unknown types, kinds behind an
 *                  open breaker and kinds at a limit are put off
 *   crowds         moves order units with very many followers out of the queue, beside the consumer
 *   turn, reorder.store  whose turn it is in an entity whose source has a reorder window
 *   lane-attempt   claim, run the handler, choose the outcome
 *   lane-completion  write the outcome: with the handler's own writes in one commit, or by itself
 *   competing-*    without order and lease: claims batches (SKIP LOCKED) ahead of need, fills the places of the process,
 *                  writes the successes of handlers without a transaction together
 *   recovery       give back what an owner that disappeared left behind
 *
 * States: pending -> processing (claim: token, owner, claimed_until; the attempt is counted) -> success | failed |
 * pending. pending <-> held for followers of a waiting message of the same entity.
 *
 * Guarantees: every write after a claim repeats its token, and in a lane also the fence of the lane's lease, so an owner
 * that was replaced changes nothing. What a handler writes through its manager commits together with the success mark.
 *
 * Windows in which a handler runs again: its owner ended or was replaced before the commit; its transaction lost a
 * deadlock; it timed out. Effects outside the database may then happen twice.
 */

export { announceFailure, attemptFacts } from './announce-failure.js';
export { announceRecovered } from './announce-recovered.js';
export { type AttemptEnd, runAttempt } from './attempt.js';
export { outcomeOfFailure } from './attempt-outcome.js';
export type { BatchRules, BatchTools } from './batch-rules.js';
export { type BoxTable, quoteIdentifier } from './box-table.js';
export type { Candidate, DueMessage } from './candidate.js';
export type { Claim } from './claim.js';
export { ClaimStore } from './claim.store.js';
export { newClaimToken } from './claim-token.js';
export { ClaimsInHand, type HeldClaim } from './claims-in-hand.js';
export { ClosedOffKinds } from './closed-off-kinds.js';
export { CompetingAttempt } from './competing-attempt.js';
export { CompetingHandling } from './competing-handling.js';
export type {
  CompetingBox,
  CompetingOptions,
  CompetingParts,
  CompetingWork,
  InHand,
  JobEnd,
} from './competing-parts.js';
export type { PassEnd } from './competing-pump.js';
export { CompetingRunner } from './competing-runner.js';
export { Crowds } from './crowds.js';
export { EntityOrderStore, type SweepPosition } from './entity-order.store.js';
export { GaugesStore } from './gauges.store.js';
export { GroupLockStore } from './group-lock.store.js';
export { HandlerSession } from './handler-session.js';
export { HandlerTransaction } from './handler-transaction.js';
export { inboxNeeds } from './inbox-needs.js';
export { LaneStore } from './lane.store.js';
export { LaneBatchStore } from './lane-batch.store.js';
export { LaneCompletion } from './lane-completion.js';
export { findLanes } from './lane-discovery.js';
export type { AttemptTools, ClosedOff, LaneBox, LaneHandler, Pace, Permit, Readiness } from './lane-handler.js';
export type { LaneParts, LaneRoundOptions } from './lane-parts.js';
export { LaneRound, type RoundEnd } from './lane-round.js';
export { type ColumnNames, type MappedColumns, type MessageTable, messageTable } from './mapped-columns.js';
export { ageMs, type MessageFacts, messageFacts, storedTrace, type ToldMessage } from './message-facts.js';
export { NeighbourLookup } from './neighbours.js';
export { OneByOne } from './one-by-one.js';
export { OutcomeBatch } from './outcome-batch.js';
export type { Completion } from './outcome-columns.js';
export { type Authority, OutcomeWriter } from './outcome-writer.js';
export { type Kind, PausedKinds } from './paused-kinds.js';
export { PutOffStore } from './put-off.store.js';
export { type Recovered, type RecoveryPolicy, RecoveryStore, recoveryBatch } from './recovery.store.js';
export { ReorderStore } from './reorder.store.js';
export { SessionPool } from './session-pool.js';
export { type Slot, Slots } from './slots.js';
export { Solitude } from './solitude.js';
export { Stragglers } from './stragglers.js';
export { type InboxColumn, type InboxTableOption, tableOf, tableOption } from './table-option.js';
export { UnknownTypes } from './unknown-types.js';
