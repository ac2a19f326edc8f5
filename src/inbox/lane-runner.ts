import type { SchedulerRegistry } from '@nestjs/schedule';
import {
  type HandlerSession,
  type LaneParts,
  LaneRound,
  type LaneRoundOptions,
  type RoundEnd,
} from '../delivery/index.js';
import { FixedDelayLoop } from '../schedule/index.js';
import type { FairShare } from './fair-share.js';

export interface LaneRunnerOptions extends LaneRoundOptions {
  readonly tickMs: number;
  readonly roundIntervalMs: number;
  readonly continuous: boolean;
}

/**
 * A round that is full sooner goes on: taking the lease anew costs as much as several quick messages. Large: a lane waits
 * longer for its turn at another instance, or at a limit of this one.
 */
const shortestRoundMs = 1_000;

interface RoundResult {
  readonly end: RoundEnd;
  readonly resumeInMs: number | null;
}

/** Beyond the longest round that is allowed, one pass counts as hung. */
const passSlackMs = 60_000;

/** Keeps one lane going: decides from memory alone whether a round is due, and runs it. */
export class LaneRunner {
  private readonly loop: FixedDelayLoop;
  private readonly stopping = new AbortController();
  /** Rounds in work, those asked for by `runOnce()` included. */
  private readonly rounds = new Set<Promise<unknown>>();
  private dueAt = 0;
  private woken = false;
  /** Messages at a limit are due at `dueAt`: the tick is too coarse for them. */
  private resuming = false;
  /** The connection of the application that handlers write through, from one full round to the next. */
  private kept: HandlerSession | undefined;

  constructor(
    readonly lane: number,
    private readonly parts: LaneParts,
    private readonly options: LaneRunnerOptions,
    private readonly deadline: AbortSignal,
    private readonly onError: (lane: number, error: unknown) => void,
    private readonly share: FairShare,
    registry: SchedulerRegistry | undefined,
    loopName: string,
  ) {
    this.loop = new FixedDelayLoop({
      name: loopName,
      delayMs: options.tickMs,
      passDeadlineMs: Math.min(2_147_000_000, options.batchSize * options.handlerTimeoutMs + passSlackMs),
      pass: () => this.tick(),
      onError: (error) => this.failed(error),
      registry,
    });
  }

  start(): void {
    this.loop.start();
  }

  /** There is a new message: the next round need not wait for its time. */
  wake(): void {
    if (!this.options.continuous) return;
    this.woken = true;
    this.loop.wake();
  }

  /** Claims nothing more; resolves when the message in work is finished, or given up at the deadline. */
  async stop(): Promise<void> {
    this.stopping.abort();
    await this.loop.stop();
    await Promise.allSettled(this.rounds);
    await this.closeKept();
  }

  ageMs(): number {
    return this.loop.ageMs();
  }

  /** One round now, whatever the time; for tests and `runOnce()`. */
  async runOnce(): Promise<RoundEnd> {
    try {
      return (await this.round(0)).end;
    } finally {
      await this.closeKept();
    }
  }

  private round(atLeastMs: number): Promise<RoundResult> {
    const round = this.reallyRound(atLeastMs);
    this.rounds.add(round);
    return round.finally(() => this.rounds.delete(round));
  }

  private async reallyRound(atLeastMs: number): Promise<RoundResult> {
    const startedAt = performance.now();
    const round = new LaneRound(this.lane, this.parts, this.options, this.stopping.signal, this.deadline);
    // Taken out: a round that `runOnce()` asks for beside this one must not get the same connection.
    const { kept } = this;
    this.kept = undefined;
    const session = kept ?? this.parts.newSession();
    let end: RoundEnd | undefined;
    try {
      end = await round.run(session, kept !== undefined, atLeastMs);
    } finally {
      if (end === 'full' && this.options.continuous && !this.kept) this.kept = session;
      else await session.close();
    }
    this.parts.events.emit({
      name: 'round',
      lane: this.lane,
      end,
      messages: round.handled,
      durationMs: performance.now() - startedAt,
    });
    return { end, resumeInMs: round.resumeInMs };
  }

  private async tick(): Promise<void> {
    const earlyMs = this.dueAt - performance.now();
    if (!this.woken && earlyMs > 0) {
      if (this.resuming) this.loop.pauseAtMost(Math.ceil(earlyMs));
      return;
    }
    if (!this.share.tryTake(this.lane)) return this.closeKept();
    const wasWoken = this.woken;
    this.woken = false;
    const startedAt = performance.now();
    let round: RoundResult;
    try {
      round = await this.round(this.options.continuous ? shortestRoundMs : 0);
    } finally {
      this.share.done(this.lane);
    }
    const { end, resumeInMs } = round;
    const { continuous, roundIntervalMs } = this.options;
    this.resuming = continuous && resumeInMs !== null && resumeInMs < roundIntervalMs;
    if (!continuous) {
      this.dueAt = startedAt + roundIntervalMs;
    } else if (end === 'full') {
      this.wake();
    } else if (this.resuming && resumeInMs !== null && end !== 'unavailable') {
      this.dueAt = performance.now() + resumeInMs;
      this.loop.pauseAtMost(Math.ceil(resumeInMs));
    } else {
      // Another instance was in when the wake came, and may have looked just before the message appeared: look again soon.
      this.dueAt = end === 'unavailable' && wasWoken ? 0 : performance.now() + roundIntervalMs;
    }
    // A wake that came meanwhile must not shorten the pause of a lane that yielded or timed out.
    if (end === 'yielded' || end === 'timeouts' || end === 'surplus') this.woken = false;
  }

  /** Gives the connection back to the application. Never throws. */
  private async closeKept(): Promise<void> {
    const { kept } = this;
    this.kept = undefined;
    await kept?.close();
  }

  private failed(error: unknown): void {
    this.dueAt = performance.now() + this.options.roundIntervalMs;
    this.onError(this.lane, error);
  }
}
