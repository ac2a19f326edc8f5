// Take pushes in and handle them

// Write options
export type { BackoffOption, Duration } from './config/index.js';
// Say how a message failed
export { isDuplicateKey } from './database/index.js';
export type { InboxColumn, InboxTableOption } from './delivery/index.js';
export * from './errors/index.js';
export {
  type BacklogAlarmOptions,
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
// Tell the load balancer
export {
  type HealthCheck,
  type HealthOptions,
  type HealthResult,
  MailroomHealthIndicator,
  MailroomHealthModule,
  type ReadinessReason,
  type Severity,
} from './observability/health/index.js';
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
// Read it in the log
export { type LogOptions, MailroomLogModule, redactFields, redactText } from './observability/logging/index.js';
// Count it, for Prometheus
export { MailroomMetrics, MailroomMetricsModule, type MetricsOptions } from './observability/metrics/index.js';
// Send what was committed, and process it once at the other side
export {
  type AnySocket,
  type Audit,
  type ClientProxyTransportOptions,
  type Confirmation,
  clientProxyTransport,
  type DeliveryState,
  type DeliveryStatus,
  type GivenClientProxy,
  type KnownIds,
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
  type OutboxQuery,
  OutboxService,
  type OutboxStats,
  type OutgoingMessage,
  type Processed,
  type ProcessedCacheOptions,
  type ProcessOnceOptions,
  processedCache,
  processOnce,
  type ReceiverSocket,
  type Run,
  type RunAction,
  type RunState,
  type Selection,
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
// See what failed, and run it again
export {
  type Edited,
  type EditRequest,
  type MessageLine,
  type MessageView,
  type Preview,
  type ReplayAsyncOptions,
  type ReplayHttpOptions,
  ReplayModule,
  type ReplayOptions,
  type ReplayRequest,
  type ReplaySelection,
  ReplayService,
  type RunItem,
} from './replay/index.js';
// Take out what is old
export {
  type PurgedTable,
  RetentionModule,
  type RetentionOptions,
  RetentionService,
  type RetentionTotals,
} from './retention/index.js';
// Check who pushes
export * from './signature/index.js';
