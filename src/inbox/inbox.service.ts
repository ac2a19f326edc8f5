import type { PassEnd, RoundEnd } from '../delivery/index.js';
import type { Executed, ExecuteOptions, ImmediateExecution } from './immediate-execution.js';
import type { InboxConsumer } from './inbox-consumer.js';
import type { InboxInsight } from './inbox-insight.js';
import type { InboxOperations, PausedKind } from './inbox-operations.js';
import type { InboxStats } from './inbox-stats.js';
import type { Intake, ReceiveOptions } from './intake.js';
import type { PushInput } from './push.js';
import type { Receipt } from './receipt.js';
import type { KeyValue } from './source-options.js';
import type { WaitReason } from './why.js';

/** The inbox as application code uses it. */
export class InboxService {
  constructor(
    private readonly intake: Intake,
    private readonly consumer: InboxConsumer,
    private readonly execution: ImmediateExecution,
    private readonly operations: InboxOperations,
    private readonly insight: InboxInsight,
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

  /**
   * Compensation: handles a push now, in its handler's transaction, and resolves after the commit.
   *
   * Signature, `accept` and keys are as in `receive`, but no row is stored: this is the exception to the promise that a
   * push is on disk before it is handled. Nothing deduplicates or retries it, `messageId` is '0', and a process that
   * ends in the middle leaves no trace. An error of the handler, its timeout included, is thrown to the caller and
   * nothing is committed. The messages of a `split` are handled one after the other, each in a transaction of its own.
   *
   * It holds the lane of the message like a consumer, waits for it at most 2 s, renews it and gives it back, so that no
   * consumer of the lane commits meanwhile, here or elsewhere. With `serialize: false` it runs beside them.
   *
   * @throws ConflictError (409) while the lane is held by another, the breaker is open, or a limit is reached
   * @throws IntakeRefusedError as `receive` does
   * @throws HandlerRegistrationError when this instance has no handler for the message
   */
  execute(source: string, push: PushInput, options?: ExecuteOptions): Promise<Executed> {
    return this.execution.execute(source, push, options);
  }

  /**
   * Leaves messages of a source, of a type, or of both alone, in this process only and until `resume` or a restart.
   *
   * They stay pending and are not written to; other kinds go on, and messages that are being handled are finished.
   * Younger messages of the same entities wait, as they would behind a retry. Without arguments everything is paused.
   * Every instance must be told. Returns what is paused now.
   */
  pause(kind: Partial<PausedKind> = {}): readonly PausedKind[] {
    return this.operations.pause(kind);
  }

  /** Ends a pause, and those of all kinds that it contains; without arguments, every one. Returns what stays paused. */
  resume(kind: Partial<PausedKind> = {}): readonly PausedKind[] {
    return this.operations.resume(kind);
  }

  /**
   * For sources with `onFailure: 'park'`: a person decided that the failed messages of this entity hold it back no longer.
   * They stay failed; what waited behind them is handled in order. Returns how many failed messages let go: 0 when
   * there were none, and a second call changes nothing.
   * @throws RangeError for a key from which no entity key can be made
   */
  releaseEntity(source: string, key: KeyValue): Promise<{ readonly released: number }> {
    return this.operations.releaseEntity(source, key);
  }

  /** What the inbox looks like now. Index look-ups only, whatever the size of the table; no lock. */
  stats(): Promise<InboxStats> {
    return this.insight.stats();
  }

  /** What a message waits for, as a code and in words, as this instance sees it. An id that does not exist is an answer too. */
  why(id: string): Promise<WaitReason> {
    return this.insight.why(id);
  }

  /** One round of every lane now, whether or not consumption is enabled: for tests and scripts. */
  runOnce(): Promise<(RoundEnd | PassEnd)[]> {
    return this.consumer.runOnce();
  }

  /** One recovery pass now: orphans are given back, entities that were left aside are put in order. For tests and scripts. */
  recoverOnce(): Promise<void> {
    return this.consumer.recover();
  }
}
