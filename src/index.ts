// Take pushes in and handle them

// Write options
export type { BackoffOption, Duration } from './config/index.js';
// Say how a message failed
export { isDuplicateKey } from './database/index.js';
export * from './errors/index.js';
export {
  type AmbientMessage,
  type BreakerOptions,
  type BreakerSnapshot,
  currentMessage,
  type Executed,
  type ExecuteOptions,
  type InboxAsyncOptions,
  type InboxContext,
  InboxHandler,
  type InboxHandlerOptions,
  InboxLifecycle,
  InboxMessage,
  InboxModule,
  type InboxOptions,
  InboxService,
  type KeyValue,
  type LeaseOptions,
  type PausedKind,
  Push,
  type PushInput,
  type PushResponse,
  type Receipt,
  type ReceiveOptions,
  type SourceOptions,
} from './inbox/index.js';

// See what happens
export {
  type MailroomEvent,
  type MailroomEventName,
  type MailroomEventOf,
  MailroomEvents,
  type MailroomListener,
} from './observability/index.js';
// Check who pushes
export * from './signature/index.js';
