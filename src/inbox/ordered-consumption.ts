import type { SchedulerRegistry } from '@nestjs/schedule';
import type { LaneParts, RoundEnd, SweepPosition } from '../delivery/index.js';
import type { InstanceMembership } from '../lease/index.js';
import { FixedDelayLoop } from '../schedule/index.js';
import type { Consumption } from './consumption.js';
import { FairShare } from './fair-share.js';
import type { ResolvedInboxOptions } from './inbox-options.js';
import { LaneRunner } from './lane-runner.js';

/** Held messages that one recovery pass looks at. */
const sweepSize = 500;

/** Each lane in order, by one instance at a time. */
export class OrderedConsumption implements Consumption {
  private readonly deadline = new AbortController();
  /** By lane: those configured, and those left over from a time with more lanes. */
  private readonly runners = new Map<number, LaneRunner>();
  private readonly sharing: FixedDelayLoop;
  private readonly share: FairShare;
  private sweptTo: SweepPosition | null = null;
  private started = false;
  private stopped = false;

  constructor(
    private readonly options: ResolvedInboxOptions,
    private readonly parts: LaneParts,
    private readonly membership: InstanceMembership,
    private readonly registry: SchedulerRegistry | undefined,
    private readonly onError: (lane: number | null, error: unknown) => void,
  ) {
    const { ttl } = options.lease;
    this.share = new FairShare(options.tick, ttl + options.tick);
    for (let lane = 0; lane < options.lanes; lane++) this.runners.set(lane, this.runnerOf(lane));
    this.sharing = new FixedDelayLoop({
      name: 'mailroom:inbox:sharing',
      delayMs: Math.max(100, Math.floor(ttl / 3)),
      passDeadlineMs: 60_000,
      pass: () => this.divide(),
      onError: (error) => this.onError(null, error),
      registry,
    });
  }

  start(): void {
    this.started = true;
    for (const runner of this.runners.values()) runner.start();
    // One lane cannot be shared, so nobody needs to know who else is there.
    if (this.options.lanes > 1) this.sharing.start();
  }

  wake(lane: number): void {
    this.runners.get(lane)?.wake();
  }

  wakeAll(): void {
    for (const runner of this.runners.values()) runner.wake();
  }

  async runOnce(): Promise<RoundEnd[]> {
    const ends = await Promise.all([...this.runners.values()].map((runner) => runner.runOnce()));
    await this.parts.crowds.idle();
    return ends;
  }

  /** They are consumed until they are empty. */
  async adopt(lanes: readonly number[]): Promise<void> {
    const left = new Set(lanes);
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

  async tidy(): Promise<void> {
    this.sweptTo = await this.parts.order.repair(this.sweptTo, sweepSize);
    await this.parts.order.reorder?.sweep();
  }

  ageMs(): number {
    return Math.max(...[...this.runners.values()].map((runner) => runner.ageMs()));
  }

  async stop(graceMs: number): Promise<void> {
    this.stopped = true;
    const timer = setTimeout(() => this.deadline.abort(new Error('the shutdown deadline has passed')), graceMs);
    try {
      const runners = [...this.runners.values()].map((runner) => runner.stop());
      await Promise.all([...runners, this.sharing.stop(), this.parts.crowds.stop()]);
      if (this.started && this.options.lanes > 1) await this.membership.leave();
    } finally {
      clearTimeout(timer);
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
      (at, error) => this.onError(at, error),
      this.share,
      this.registry,
      `mailroom:inbox:lane:${lane}`,
    );
  }
}
