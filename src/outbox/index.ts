/**
 * Messages that leave if and only if the business transaction committed.
 *
 *   enqueue     an INSERT through the caller's EntityManager, nothing else
 *   watcher     sees the outermost COMMIT and wakes the relay of this process; the poll is the floor
 *   relay       claims batches beside other relays, hands them to their transports, writes what came of each
 *   receivers   messages for somebody who is offline wait until it is woken
 *
 * States: pending -> sending (claim: token, owner, claimed_until; the attempt is counted) -> sent | dead | pending |
 * parked. parked -> pending when the receiver is woken, or at the re-check; -> dead when it expired. pending <-> held for
 * followers of a waiting message of the same order unit.
 *
 * Guarantees: a message exists if and only if its transaction committed. Each outcome repeats the claim's token. Within
 * an order unit the smallest unfinished id goes first.
 *
 * Windows in which a message is sent again: its relay ended, or lost its claim, between the send and the mark; the
 * transport's answer did not come within sendTimeout. The message id is the same, so that the other side can drop it.
 * What a local handler writes through its manager is written once.
 */

export type { Run, RunAction, RunState, Selection } from '../delivery/runs/index.js';
export { type KnownIds, type Processed, type ProcessOnceOptions, processOnce } from '../idempotency/index.js';
export { OutboxLifecycle } from './outbox.lifecycle.js';
export { type OutboxAsyncOptions, OutboxModule } from './outbox.module.js';
export { OutboxService } from './outbox.service.js';
export type { OutboxContext } from './outbox-context.js';
export { OutboxMessage } from './outbox-message.js';
export type { OutboxOptions } from './outbox-options.js';
export type { DeliveryState, DeliveryStatus, OutboxQuery, OutboxStats } from './outbox-queries.js';
export type { Audit } from './outbox-runs.js';
export type { OutboxKey, OutgoingMessage } from './outgoing-message.js';
export { type ProcessedCacheOptions, processedCache } from './processed-cache.js';
export * from './transports/client-proxy/index.js';
export {
  type LocalTransport,
  localTransport,
  OutboxHandler,
  type OutboxHandlerOptions,
} from './transports/local-transport.js';
export type { SendContext, SendResult, Transport, TransportOutbox } from './transports/transport.js';
export * from './transports/websocket/index.js';
