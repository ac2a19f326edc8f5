import type { SchedulerRegistry } from '@nestjs/schedule';
import { announceRecovered, type LaneParts, type PassEnd, type RoundEnd, recoveryBatch } from '../delivery/index.js';
import { MailroomLogger } from '../observability/logging/mailroom-logger.js';
import type { BacklogAlarm } from '../pressure/index.js';
import { FixedDelayLoop } from '../schedule/index.js';
import type { Consumption } from './consumption.js';
import type { ResolvedInboxOptions } from './inbox-options.js';

/** Recovery goes on without a pause while batches are full, but not for ever. */
const mostBatches = 100;

/** Makes the consumption of the configured mode; it reports the errors of its loops. */
export type NewConsumption = (onError: (lane: number | null, error: unknown) => void) => Consumption;

/** Consumes the inbox and recovers orphans, on loops that never die. */
export class InboxConsumer {
  private readonly logger = new MailroomLogger('InboxConsumer');
  private readonly consumption: Consumption;
  private readonly recovery: FixedDelayLoop;
  private started = false;

  constructor(
    private readonly options: ResolvedInboxOptions,
    private readonly parts: LaneParts,
    newConsumption: NewConsumption,
    private readonly alarm: Pick<BacklogAlarm, 'look'>,
    private readonly discoverLanes: (from: number) => Promise<number[]>,
    registry: SchedulerRegistry | undefined,
  ) {
    const onError = (lane: number | null, error: unknown) => this.failed(lane, error);
    this.consumption = newConsumption(onError);
    this.recovery = new FixedDelayLoop({
      name: 'mailroom:inbox:recovery',
      delayMs: options.recoveryInterval,
      passDeadlineMs: 60_000,
      pass: () => this.recover(),
      onError: (error) => onError(null, error),
      registry,
    });
  }

  start(): void {
    if (!this.options.enabled || this.started) return;
    this.started = true;
    this.consumption.start();
    this.recovery.start();
  }

  wake(lane: number): void {
    if (this.started) this.consumption.wake(lane);
  }

  wakeAll(): void {
    if (this.started) this.consumption.wakeAll();
  }

  /** One round of every lane, now. */
  runOnce(): Promise<(RoundEnd | PassEnd)[]> {
    return this.consumption.runOnce();
  }

  /** One recovery pass, now. */
  async recover(): Promise<void> {
    for (let batch = 1; batch <= mostBatches; batch++) {
      const recovered = await this.parts.recovery.recoverExpired();
      await announceRecovered(recovered, this.parts);
      if (recovered.length < recoveryBatch) break;
    }
    await this.parts.groups.sweep();
    await this.consumption.tidy();
    // Lanes that hold messages although nobody is configured for them any more.
    await this.consumption.adopt(await this.discoverLanes(this.options.lanes));
    await this.alarm.look();
  }

  /** Milliseconds since the slowest loop last turned; 0 when nothing runs here. */
  oldestTurnMs(): number {
    return this.started ? this.consumption.ageMs() : 0;
  }

  /**
   * Stops claiming, lets the messages in work finish, and gives them up after `graceMs`. Leases are released on the way.
   */
  async stop(graceMs: number): Promise<void> {
    try {
      await Promise.all([this.consumption.stop(graceMs), this.recovery.stop()]);
    } finally {
      await this.parts.keeper.close();
    }
  }

  /** Tells that a round, or work beside the rounds, failed. */
  failed(lane: number | null, error: unknown): void {
    this.parts.events.emit({ name: 'round-failed', lane, error });
    const { message, code } = error as { message?: string; code?: string };
    this.logger.error({ msg: 'a round failed; the next one comes after a pause', lane, code, error: message });
  }
}
