import { MailroomError } from './mailroom.error.js';

/** A selection of messages that cannot be meant. Nothing was changed. `statusCode` is 400. */
export class InvalidSelectionError extends MailroomError {
  readonly code = 'MAILROOM_INVALID_SELECTION';
  readonly statusCode = 400;
  readonly status = 400;
  readonly expose = true;

  constructor(
    readonly field: string,
    problem: string,
  ) {
    super(`${field}: ${problem}`);
  }
}
