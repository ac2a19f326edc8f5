/** Delay in milliseconds before the attempt that follows attempt number `attempt` (1 is the first). */
export type Backoff = (attempt: number) => number;

export interface RetryPolicy {
  /** Retries after the first attempt. */
  readonly maxRetry: number;
  readonly backoff: Backoff;
}

/** A fixed list of delays, not empty; the last one repeats. */
export function listBackoff(delaysMs: readonly number[]): Backoff {
  const last = delaysMs.at(-1) ?? 0;
  return (attempt) => delaysMs[attempt - 1] ?? last;
}

/** `initial * multiplier^(attempt-1)`, never above `max`. */
export function exponentialBackoff(initialMs: number, multiplier: number, maxMs: number): Backoff {
  return (attempt) => Math.min(maxMs, initialMs * multiplier ** (attempt - 1));
}

/** True when an attempt that just failed was the last that the policy allows. */
export function isExhausted(policy: RetryPolicy, attempts: number): boolean {
  return attempts > policy.maxRetry;
}
