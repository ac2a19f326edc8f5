import type { Logger } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { InboxMessage } from './inbox-message.js';

/** What a batch handler gets beside its messages. */
export interface InboxBatchContext {
  /** Writes through this manager commit in one transaction with the success of the whole batch, or not at all. */
  readonly manager: EntityManager;
  /** Aborted on timeout, when the lane is lost and at the shutdown deadline. */
  readonly signal: AbortSignal;
  readonly logger: Logger;
  /** The attempt that this is for one message of the call: 1 for the first. Those of one call may differ. */
  attemptOf(message: InboxMessage): number;
  /**
   * Runs `work` with `message` as what `currentMessage()` gives to the code under it, and returns what it returns. Within
   * a call for one message that is so without it.
   */
  during<T>(message: InboxMessage, work: () => T): T;
  /**
   * Records that one message failed with `error`, as if a handler of its own had thrown it; the others succeed. What was
   * written for it through `manager` is kept then, so decide before writing, or use a savepoint; if every message of the
   * call failed, nothing is kept. If a later message of its entity is in the same call, the call is rolled back and done
   * one by one, since that one must not pass it.
   */
  fail(message: InboxMessage, error: unknown): void;
}
