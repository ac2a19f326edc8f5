import { MailroomError } from './mailroom.error.js';

/** A message that cannot be enqueued as it is. Nothing was sent to the database, so the transaction can go on. */
export class InvalidMessageError extends MailroomError {
  readonly code = 'MAILROOM_INVALID_MESSAGE';

  constructor(
    readonly field: string,
    problem: string,
  ) {
    super(`outbox message: ${field}: ${problem}`);
  }
}
