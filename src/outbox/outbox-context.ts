import type { Logger } from '@nestjs/common';
import type { EntityManager } from 'typeorm';

/** What an `@OutboxHandler` method gets beside the message. */
export interface OutboxContext {
  /** Its statements commit together with the sent mark. The transaction opens at the first one. */
  readonly manager: EntityManager;
  /** Aborted on timeout, when the claim is lost, and at the shutdown deadline. */
  readonly signal: AbortSignal;
  /** 1 for the first attempt. */
  readonly attempt: number;
  readonly messageId: string;
  /** Of its traceparent or X-Request-ID, which it has from the message in work when it was enqueued; else its own id. */
  readonly traceId: string;
  readonly logger: Logger;
}
