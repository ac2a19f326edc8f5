import { MailroomError } from './mailroom.error.js';

/** A handler did not settle within its timeout. Its signal was aborted and its database connection destroyed. */
export class HandlerTimeoutError extends MailroomError {
  readonly code = 'MAILROOM_HANDLER_TIMEOUT';

  constructor(readonly timeoutMs: number) {
    super(
      `the handler did not finish within ${timeoutMs} ms; raise its timeout or make it listen to ctx.signal, which was aborted`,
    );
  }
}
