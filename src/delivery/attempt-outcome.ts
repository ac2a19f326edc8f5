import { PermanentFailureError } from '../errors/permanent-failure.error.js';
import { RetryAfterError } from '../errors/retry-after.error.js';
import { type Outcome, storedError } from '../message/outcome.js';
import { isExhausted, type RetryPolicy } from '../message/retry-policy.js';

/** `error_kind` of an attempt that ran out of time. */
export const timeoutKind = 'timeout';

/**
 * What follows from a failed attempt: a permanent error ends it at once, used-up retries end it too, everything else is
 * tried again after the backoff or after the time that the handler asked for.
 * @param attempts attempts started so far, this one included
 */
export function outcomeOfFailure(thrown: unknown, attempts: number, policy: RetryPolicy, kind?: string): Outcome {
  const error = storedError(thrown, kind);
  if (thrown instanceof PermanentFailureError || isExhausted(policy, attempts)) return { kind: 'failed', error };
  const delayMs = thrown instanceof RetryAfterError ? thrown.delayMs : policy.backoff(attempts);
  return { kind: 'retry', delayMs, error };
}
