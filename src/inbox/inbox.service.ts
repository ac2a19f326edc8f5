import type { RoundEnd } from '../delivery/index.js';
import type { InboxConsumer } from './inbox-consumer.js';
import type { Intake, ReceiveOptions } from './intake.js';
import type { PushInput } from './push.js';
import type { Receipt } from './receipt.js';

/** The inbox as application code uses it. */
export class InboxService {
  constructor(
    private readonly intake: Intake,
    private readonly consumer: InboxConsumer,
  ) {}

  /**
   * Takes a push in as if it had come to the source's path: signature, acceptance, keys, one row per message.
   *
   * Resolves after the commit, with one receipt, or with an array of them for a source with `split`. With `manager` the
   * rows join that transaction and appear with its commit. After a crash between commit and answer the sender pushes
   * again and gets the same id, marked as duplicate.
   *
   * @throws IntakeRefusedError with `statusCode`: 4xx when the same push will never be taken, 503 when it should be
   *   pushed again
   */
  receive(source: string, push: PushInput, options?: ReceiveOptions): Promise<Receipt | readonly Receipt[]> {
    return this.intake.receive(source, push, options);
  }

  /** One round of every lane now, whether or not consumption is enabled: for tests and scripts. */
  runOnce(): Promise<RoundEnd[]> {
    return this.consumer.runOnce();
  }

  /** One recovery pass now: orphans are given back, entities that were left aside are put in order. For tests and scripts. */
  recoverOnce(): Promise<void> {
    return this.consumer.recover();
  }
}
