/**
 * Events first: the engine says what happened, and everything that people look at is a subscriber. An event about a
 * message is emitted after its outcome was committed, so it is never about something that was rolled back. After a
 * crash an event may be missing; the table is the truth.
 */

export { type AmbientMessage, currentMessage, withCurrentMessage } from './ambient-message.js';
export {
  eventChannel,
  type MailroomEvent,
  type MailroomEventName,
  type MailroomEventOf,
  MailroomEvents,
  type MailroomListener,
} from './events.js';
export { MailroomEventsModule } from './events.module.js';
export { type BoxGauges, type BoxProbe, type BoxStats, MailroomProbes } from './probes.js';
export { RetryWindows } from './retry-windows.js';
export { MailroomTracing } from './tracing/mailroom-tracing.js';
export { arrivingTrace, headersOfTrace, type Trace, traceHeaders, traceOf } from './tracing/trace.js';
export { type TracedAttempt, type Tracing, untraced } from './tracing/tracing.js';
