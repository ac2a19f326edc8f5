import { MailroomError } from './mailroom.error.js';

/**
 * A message cannot be handled right now, because something else is at work in its place: another holder of its lane, an
 * open breaker, a limit, a pause. Nothing was written. The message says what to do; `statusCode` is 409, and Nest's
 * default exception filter answers with it by itself.
 */
export class ConflictError extends MailroomError {
  readonly code = 'MAILROOM_CONFLICT';
  readonly statusCode = 409;
  /** With `expose`, what Nest's filter knows an error with a status of its own by. */
  readonly status = 409;
  /** The message may go to the caller. */
  readonly expose = true;
}
