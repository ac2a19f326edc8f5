import { MailroomError } from './mailroom.error.js';

/**
 * Throw it from a handler when no retry can help: the message becomes `failed` at once, whatever is left of its retries.
 * `kind` is the short word by which failures are grouped (column `error_kind`), default `permanent`.
 */
export class PermanentFailureError extends MailroomError {
  readonly code = 'MAILROOM_PERMANENT_FAILURE';
  readonly kind: string;

  constructor(message: string, options: { readonly kind?: string; readonly cause?: unknown } = {}) {
    super(message, options);
    this.kind = options.kind ?? 'permanent';
  }
}
