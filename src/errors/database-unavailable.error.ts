import { MailroomError } from './mailroom.error.js';

/** The database did not answer within the given time, or the connection broke. What was sent last may have committed. */
export class DatabaseUnavailableError extends MailroomError {
  readonly code = 'MAILROOM_DATABASE_UNAVAILABLE';

  constructor(what: string, options?: { readonly cause?: unknown }) {
    super(`${what}: the database is not available`, options);
  }
}
