import type { RetryPolicy } from './retry-policy.js';

/** From a message's first attempt to the end of its last one at the latest, when none of them waits for anything else. */
export function retryWindowMs({ maxRetry, backoff }: RetryPolicy, timeoutMs: number): number {
  let ms = timeoutMs;
  for (let attempt = 1; attempt <= maxRetry; attempt++) ms += backoff(attempt) + timeoutMs;
  return ms;
}
