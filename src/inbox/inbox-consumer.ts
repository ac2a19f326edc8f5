import { Logger } from '@nestjs/common';
import type { SchedulerRegistry } from '@nestjs/schedule';
import {
  announceRecovered,
  type LaneParts,
  type RoundEnd,
  recoveryBatch,
  type SweepPosition,
} from '../delivery/index.js';
import { FixedDelayLoop } from '../schedule/index.js';
import type { ResolvedInboxOptions } from './inbox-options.js';
import { LaneRunner } from './lane-runner.js';

/** Held messages that one recovery pass looks at. */
const sweepSize = 500;
/** Recovery goes on without a pause while batches are full, but not for ever. */
const mostBatches = 100;

/** Consumes the lanes of the inbox and recovers orphans, on loops that never die. */
export class InboxConsumer {
  private readonly logger = new Logger('InboxConsumer');
  private readonly deadline = new AbortController();
  private readonly runners: readonly LaneRunner[];
  private readonly recovery: FixedDelayLoop;
  private sweptTo: SweepPosition | null = null;
  private started = false;

  constructor(
    private readonly options: ResolvedInboxOptions,
    private readonly parts: LaneParts,
    registry: SchedulerRegistry | undefined,
  ) {
    const round = {
      batchSize: options.batchSize,
      handlerTimeoutMs: options.handlerTimeout,
      timeoutsPerRound: options.timeoutsPerRound,
      orphanAfterMs: options.orphanAfter,
      onlyLane: options.lanes === 1,
      tickMs: options.tick,
      roundIntervalMs: options.roundInterval,
      continuous: options.continuous,
    };
    this.runners = Array.from(
      { length: options.lanes },
      (_, lane) =>
        new LaneRunner(
          lane,
          parts,
          round,
          this.deadline.signal,
          (at, error) => this.failed(at, error),
          registry,
          `mailroom:inbox:lane:${lane}`,
        ),
    );
    this.recovery = new FixedDelayLoop({
      name: 'mailroom:inbox:recovery',
      delayMs: options.recoveryInterval,
      passDeadlineMs: 60_000,
      pass: () => this.recover(),
      onError: (error) => this.failed(null, error),
      registry,
    });
  }

  start(): void {
    if (!this.options.enabled || this.started) return;
    this.started = true;
    for (const runner of this.runners) runner.start();
    this.recovery.start();
  }

  wake(lane: number): void {
    if (this.started) this.runners[lane]?.wake();
  }

  /** One round of every lane, now. */
  runOnce(): Promise<RoundEnd[]> {
    return Promise.all(this.runners.map((runner) => runner.runOnce()));
  }

  /** One recovery pass, now. */
  async recover(): Promise<void> {
    for (let batch = 1; batch <= mostBatches; batch++) {
      const recovered = await this.parts.recovery.recoverExpired();
      await announceRecovered(recovered, this.parts);
      for (const { orphan } of recovered)
        this.logger.warn({ msg: 'recovered an orphan', id: orphan.id, source: orphan.source, type: orphan.type });
      if (recovered.length < recoveryBatch) break;
    }
    this.sweptTo = await this.parts.order.repair(this.sweptTo, sweepSize);
  }

  /** Milliseconds since the slowest loop last turned; 0 when nothing runs here. */
  oldestTurnMs(): number {
    return this.started ? Math.max(...this.runners.map((runner) => runner.ageMs())) : 0;
  }

  /**
   * Stops claiming, lets the messages in work finish, and gives them up after `graceMs`. Leases are released on the way.
   */
  async stop(graceMs: number): Promise<void> {
    const timer = setTimeout(() => this.deadline.abort(new Error('the shutdown deadline has passed')), graceMs);
    try {
      await Promise.all([...this.runners.map((runner) => runner.stop()), this.recovery.stop()]);
    } finally {
      clearTimeout(timer);
      await this.parts.keeper.close();
    }
  }

  private failed(lane: number | null, error: unknown): void {
    this.parts.events.emit({ name: 'round-failed', lane, error });
    const { message, code } = error as { message?: string; code?: string };
    this.logger.error({ msg: 'a round failed; the next one comes after a pause', lane, code, error: message });
  }
}
