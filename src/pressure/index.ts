/**
 * What keeps load within limits: a breaker that stops calling what fails, limits on how much runs at once and how often
 * something starts, and the pressure that the door and the consumer share.
 *
 *   breaker   closed -> open (too many failed or slow) -> half-open (one probe at a time) -> closed | open
 *   limiter   at most so many at once, at most so many starts in any second
 *   pressure  rate of each source, what waits in the table (sampled, with hysteresis), how long handlers take
 *
 * All of it asks the clock that it is given, owns no timer and no connection, and lives in one process. N instances have
 * N of each; only what waits in the table is the same for all of them.
 */
export { Backlog, type BacklogLimits, type BacklogReason, type BacklogSample } from './backlog.js';
export { BacklogAlarm, type BacklogAlarmOptions, backlogAlarmSchema, type Waiting } from './backlog-alarm.js';
export { Breaker, type BreakerCall, type BreakerRules, type BreakerState, type CallResult } from './breaker.js';
export { type BreakerOptions, breakerRules, breakerSchema } from './breaker-options.js';
export { HandlerLatency } from './handler-latency.js';
export { Limiter, type Limits, type Place } from './limiter.js';
export { type Excess, Pressure, type SourceRules } from './pressure.js';
export type { CallCounts } from './sliding-window.js';
export type { Rate } from './token-bucket.js';
