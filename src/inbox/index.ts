/**
 * InboxModule: what third parties push is stored before it is acknowledged, then handled safely.
 *
 *   webhook-endpoint -> intake (signature, accept, keys) -> intake.store: one committed row -> 200 with a receipt
 *   lane-runner -> delivery: lease of the lane, claim, handler, outcome -> inbox-dispatcher -> your @InboxHandler
 *
 * States: pending (waiting for its first attempt or for a retry) -> processing -> success | failed; held while an older
 * message of its entity waits. Who sees a message as `failed` must decide: nothing moves it any more.
 *
 * Guarantees: a 2xx is a commit. A message is handled until it succeeds or is failed. What its handler writes through
 * `ctx.manager` commits together with its success, once, also over crashes. Messages of one entity are handled in order.
 *
 * Windows in which a handler runs again for the same message: its process ended, was frozen or lost its lane before the
 * commit; its transaction lost a deadlock; it timed out. Effects outside the database can then happen twice.
 */

export type { BacklogAlarmOptions, BreakerOptions } from '../pressure/index.js';
export { buildInbox, type InboxParts, type InboxSurroundings } from './build-inbox.js';
export type { BreakerSnapshot } from './handler-admission.js';
export type { IdempotencyOptions } from './idempotency-options.js';
export type { Executed, ExecuteOptions } from './immediate-execution.js';
export type { FlightEntry } from './in-flight.js';
export { InboxLifecycle } from './inbox.lifecycle.js';
export { type InboxAsyncOptions, InboxModule } from './inbox.module.js';
export { InboxService } from './inbox.service.js';
export type { InboxBatchContext } from './inbox-batch-context.js';
export { InboxBatchHandler, type InboxBatchHandlerOptions } from './inbox-batch-handler.decorator.js';
export type { InboxContext } from './inbox-context.js';
export { InboxHandler, type InboxHandlerOptions } from './inbox-handler.decorator.js';
export { InboxMessage } from './inbox-message.js';
export type { PausedKind } from './inbox-operations.js';
export type { InboxOptions, LeaseOptions } from './inbox-options.js';
export type { InboxStats, LaneStats } from './inbox-stats.js';
export type { CappedCount } from './inbox-stats.store.js';
export type { ReceiveOptions } from './intake.js';
export type { LateCount } from './late-messages.js';
export { Push, type PushInput } from './push.js';
export type { PushResponse, Receipt } from './receipt.js';
export type { KeyValue, ReorderOptions, SourceOptions } from './source-options.js';
export { inboxPartsToken } from './tokens.js';
export type { WaitCode, WaitReason } from './why.js';
