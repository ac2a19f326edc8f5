import type { Logger } from '@nestjs/common';
import type { EntityManager } from 'typeorm';

/** What a handler gets beside its message. */
export interface InboxContext {
  /**
   * Writes through this manager commit in one transaction with the message's success, or not at all. The transaction
   * opens with its first statement (READ COMMITTED) and is ended by mailroom. It must not be used after the handler returned.
   */
  readonly manager: EntityManager;
  /** Aborted on timeout, when the claim is lost and at the shutdown deadline. Pass it on to fetch and the like. */
  readonly signal: AbortSignal;
  /** 1 for the first attempt. */
  readonly attempt: number;
  readonly messageId: string;
  /** Of the push: that of its traceparent, else its X-Request-ID, else one that was made when it came in. */
  readonly traceId: string;
  readonly logger: Logger;
}
