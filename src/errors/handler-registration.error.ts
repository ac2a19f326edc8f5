import { MailroomError } from './mailroom.error.js';

/** A handler cannot be registered as written: the application does not start. */
export class HandlerRegistrationError extends MailroomError {
  readonly code = 'MAILROOM_HANDLER_REGISTRATION';

  /** @param handler `Class.method` of the handler */
  constructor(
    readonly handler: string,
    problem: string,
  ) {
    super(`${handler}: ${problem}`);
  }
}
