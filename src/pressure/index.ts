/**
 * What protects a downstream from the inbox: a breaker that stops calling what fails, and limits on how much runs at once
 * and how often something starts.
 *
 *   breaker   closed -> open (too many failed or slow) -> half-open (one probe at a time) -> closed | open
 *   limiter   at most so many at once, at most so many starts in any second
 *
 * Both are pure: they ask the clock that they are given, own no timer and no connection, and live in one process. N
 * instances have N of each.
 */
export { Breaker, type BreakerCall, type BreakerRules, type BreakerState, type CallResult } from './breaker.js';
export { Limiter, type Limits, type Place } from './limiter.js';
export type { CallCounts } from './sliding-window.js';
