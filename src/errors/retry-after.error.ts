import { type Duration, parseDuration } from '../config/duration.js';
import { MailroomError } from './mailroom.error.js';

/**
 * Throw it from a handler to choose the delay of the next attempt, for example from a downstream's Retry-After header.
 * The attempt counts: after `maxRetry` retries the message is `failed` like any other.
 */
export class RetryAfterError extends MailroomError {
  readonly code = 'MAILROOM_RETRY_AFTER';
  readonly delayMs: number;

  /** @param delay milliseconds or '30s' style text, zero or more; a wrong one throws `InvalidOptionsError` */
  constructor(
    delay: Duration,
    message = 'the handler asked for a later attempt',
    options?: { readonly cause?: unknown },
  ) {
    super(message, options);
    this.delayMs = parseDuration(delay, 'RetryAfterError.delay');
  }
}
