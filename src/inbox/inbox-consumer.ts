import { Logger } from '@nestjs/common';
import type { SchedulerRegistry } from '@nestjs/schedule';
import {
  announceRecovered,
  type LaneParts,
  type RoundEnd,
  recoveryBatch,
  type SweepPosition,
} from '../delivery/index.js';
import type { InstanceMembership } from '../lease/index.js';
import { FixedDelayLoop } from '../schedule/index.js';
import { FairShare } from './fair-share.js';
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
  /** By lane: those configured, and those left over from a time with more lanes. */
  private readonly runners = new Map<number, LaneRunner>();
  private readonly recovery: FixedDelayLoop;
  private readonly sharing: FixedDelayLoop;
  private readonly share: FairShare;
  private sweptTo: SweepPosition | null = null;
  private started = false;
  private stopped = false;

  constructor(
    private readonly options: ResolvedInboxOptions,
    private readonly parts: LaneParts,
    private readonly membership: InstanceMembership,
    private readonly discoverLanes: (from: number) => Promise<number[]>,
    private readonly registry: SchedulerRegistry | undefined,
  ) {
    const { ttl } = options.lease;
    this.share = new FairShare(options.tick, ttl + options.tick);
    for (let lane = 0; lane < options.lanes; lane++) this.runners.set(lane, this.runnerOf(lane));
    this.recovery = this.loop('recovery', options.recoveryInterval, () => this.recover());
    this.sharing = this.loop('sharing', Math.max(100, Math.floor(ttl / 3)), () => this.divide());
  }

  start(): void {
    if (!this.options.enabled || this.started) return;
    this.started = true;
    for (const runner of this.runners.values()) runner.start();
    this.recovery.start();
    // One lane cannot be shared, so nobody needs to know who else is there.
    if (this.options.lanes > 1) this.sharing.start();
  }

  wake(lane: number): void {
    if (this.started) this.runners.get(lane)?.wake();
  }

  wakeAll(): void {
    for (const lane of this.runners.keys()) this.wake(lane);
  }

  /** One round of every lane, now. */
  runOnce(): Promise<RoundEnd[]> {
    return Promise.all([...this.runners.values()].map((runner) => runner.runOnce()));
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
    await this.parts.groups.sweep();
    this.sweptTo = await this.parts.order.repair(this.sweptTo, sweepSize);
    await this.adoptLanes();
  }

  /** Consumes lanes that hold messages although nobody is configured for them any more, until they are empty. */
  private async adoptLanes(): Promise<void> {
    const left = new Set(await this.discoverLanes(this.options.lanes));
    for (const [lane, runner] of this.runners) {
      if (lane < this.options.lanes || left.has(lane)) continue;
      this.runners.delete(lane);
      await runner.stop();
    }
    for (const lane of left) {
      if (this.runners.has(lane) || this.stopped) continue;
      const runner = this.runnerOf(lane);
      this.runners.set(lane, runner);
      if (this.started) runner.start();
    }
  }

  /** Tells that this instance lives, and how many lanes are its share. */
  private async divide(): Promise<void> {
    this.share.divide(this.runners.size, await this.membership.beat());
  }

  private runnerOf(lane: number): LaneRunner {
    const { options } = this;
    return new LaneRunner(
      lane,
      this.parts,
      {
        batchSize: options.batchSize,
        handlerTimeoutMs: options.handlerTimeout,
        timeoutsPerRound: options.timeoutsPerRound,
        orphanAfterMs: options.orphanAfter,
        isOnlyLane: () => this.runners.size === 1,
        shouldGiveBack: (at) => this.share.shouldGiveBack(at),
        tickMs: options.tick,
        roundIntervalMs: options.roundInterval,
        continuous: options.continuous,
      },
      this.deadline.signal,
      (at, error) => this.failed(at, error),
      this.share,
      this.registry,
      `mailroom:inbox:lane:${lane}`,
    );
  }

  private loop(name: string, delayMs: number, pass: () => Promise<void>): FixedDelayLoop {
    return new FixedDelayLoop({
      name: `mailroom:inbox:${name}`,
      delayMs,
      passDeadlineMs: 60_000,
      pass,
      onError: (error) => this.failed(null, error),
      registry: this.registry,
    });
  }

  /** Milliseconds since the slowest loop last turned; 0 when nothing runs here. */
  oldestTurnMs(): number {
    return this.started ? Math.max(...[...this.runners.values()].map((runner) => runner.ageMs())) : 0;
  }

  /**
   * Stops claiming, lets the messages in work finish, and gives them up after `graceMs`. Leases are released on the way.
   */
  async stop(graceMs: number): Promise<void> {
    this.stopped = true;
    const timer = setTimeout(() => this.deadline.abort(new Error('the shutdown deadline has passed')), graceMs);
    try {
      const runners = [...this.runners.values()].map((runner) => runner.stop());
      await Promise.all([...runners, this.recovery.stop(), this.sharing.stop()]);
      if (this.started && this.options.lanes > 1) await this.membership.leave();
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
