// Take pushes in and handle them

// Write options
export type { BackoffOption, Duration } from './config/index.js';
// Say how a message failed
export { isDuplicateKey } from './database/index.js';
export * from './errors/index.js';
export {
  type BreakerOptions,
  type BreakerSnapshot,
  type CappedCount,
  type Executed,
  type ExecuteOptions,
  type FlightEntry,
  type IdempotencyOptions,
  type InboxAsyncOptions,
  type InboxBatchContext,
  InboxBatchHandler,
  type InboxBatchHandlerOptions,
  type InboxContext,
  InboxHandler,
  type InboxHandlerOptions,
  InboxLifecycle,
  InboxMessage,
  InboxModule,
  type InboxOptions,
  InboxService,
  type InboxStats,
  type KeyValue,
  type LaneStats,
  type LateCount,
  type LeaseOptions,
  type PausedKind,
  Push,
  type PushInput,
  type PushResponse,
  type Receipt,
  type ReceiveOptions,
  type ReorderOptions,
  type SourceOptions,
  type WaitCode,
  type WaitReason,
} from './inbox/index.js';
// See what happens
export {
  type AmbientMessage,
  currentMessage,
  type MailroomEvent,
  type MailroomEventName,
  type MailroomEventOf,
  MailroomEvents,
  type MailroomListener,
} from './observability/index.js';
// Send what was committed
export {
  type AnySocket,
  type LocalTransport,
  localTransport,
  type OutboxAsyncOptions,
  type OutboxContext,
  OutboxHandler,
  type OutboxHandlerOptions,
  type OutboxKey,
  OutboxLifecycle,
  OutboxMessage,
  OutboxModule,
  type OutboxOptions,
  OutboxService,
  type OutgoingMessage,
  type ReceiverSocket,
  type SendContext,
  type SendResult,
  type SocketIoSocket,
  type SocketListener,
  type Transport,
  type TransportOutbox,
  WebSocketReceivers,
  type WebSocketTransportOptions,
  type WsSocket,
  websocketTransport,
} from './outbox/index.js';
// Check who pushes
export * from './signature/index.js';
