import { MailroomError } from './mailroom.error.js';

/**
 * `OutboxService.enqueue` was called with a manager that has no open transaction: the message could leave although the
 * business change does not commit. Nothing was enqueued. Call it inside `dataSource.transaction(async (manager) => ...)`
 * with that manager, or with `ctx.manager` in a handler.
 */
export class TransactionRequiredError extends MailroomError {
  readonly code = 'MAILROOM_TRANSACTION_REQUIRED';
}
