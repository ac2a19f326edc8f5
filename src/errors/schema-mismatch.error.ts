import { MailroomError } from './mailroom.error.js';

/** The tables in the database are not those that this release works with. Each problem says what is missing or different. */
export class SchemaMismatchError extends MailroomError {
  readonly code = 'MAILROOM_SCHEMA_MISMATCH';

  constructor(
    readonly problems: readonly string[],
    /** What to do about it. */
    readonly remedy: string,
  ) {
    super(`the database schema does not fit: ${problems.join('; ')}. ${remedy}`);
  }
}
