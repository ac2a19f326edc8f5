import { MailroomError } from './mailroom.error.js';

/**
 * `ctx.manager` was used after its transaction had ended: a deadlock or lost connection rolled it back, the handler
 * timed out, or the handler already returned. Statements would no longer be part of the message's transaction, so none
 * is sent. Let the first error leave the handler; the message is then handled again from the start.
 */
export class TransactionDoomedError extends MailroomError {
  readonly code = 'MAILROOM_TRANSACTION_DOOMED';

  constructor(
    readonly reason: string,
    options?: { readonly cause?: unknown },
  ) {
    super(`the handler's transaction is over (${reason}); no statement was sent`, options);
  }
}
