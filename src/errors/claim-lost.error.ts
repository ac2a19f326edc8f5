import { MailroomError } from './mailroom.error.js';

/**
 * The message is not this owner's any more: the lane was taken over or the claim ran out. Nothing was written and the
 * handler's transaction was rolled back; the message is handled again by whoever holds it now.
 */
export class ClaimLostError extends MailroomError {
  readonly code = 'MAILROOM_CLAIM_LOST';

  constructor(
    readonly messageId: string,
    readonly reason: string,
    options?: { readonly cause?: unknown },
  ) {
    super(`message ${messageId}: ${reason}`, options);
  }
}
