import { setMaxListeners } from 'node:events';
import type { SchedulerRegistry } from '@nestjs/schedule';
import { FixedDelayLoop } from '../schedule/index.js';
import { ClaimsInHand } from './claims-in-hand.js';
import { CompetingClaims } from './competing-claims.js';
import type { CompetingOptions, CompetingParts, CompetingWork } from './competing-parts.js';
import { CompetingPump, type PassEnd } from './competing-pump.js';
import { SessionPool } from './session-pool.js';

export interface CompetingRunnerOptions extends CompetingOptions {
  readonly tickMs: number;
  readonly loopName: string;
}

/** A pass only claims, so it is bounded by the statements it sends. */
const passDeadlineMs = 120_000;

/** Keeps the competing consumer of one box going on a loop that never dies. */
export class CompetingRunner {
  private readonly loop: FixedDelayLoop;
  private readonly pump: CompetingPump;
  private readonly sessions: SessionPool;
  private readonly deadline = new AbortController();
  private running = false;
  private turning: Promise<PassEnd> | undefined;

  constructor(
    private readonly parts: CompetingParts,
    private readonly options: CompetingRunnerOptions,
    workOf: (hand: ClaimsInHand, sessions: SessionPool) => CompetingWork,
    onError: (error: unknown) => void,
    registry: SchedulerRegistry | undefined,
  ) {
    // Each attempt in work listens to it.
    setMaxListeners(0, this.deadline.signal);
    const hand = new ClaimsInHand(parts.store, options.claimMs);
    this.sessions = new SessionPool(parts.newSession);
    this.pump = new CompetingPump(
      parts,
      options,
      new CompetingClaims(parts, options, hand),
      workOf(hand, this.sessions),
      hand,
      this.sessions,
      this.deadline.signal,
      () => this.hungry(),
      onError,
    );
    this.loop = new FixedDelayLoop({
      name: options.loopName,
      delayMs: options.tickMs,
      passDeadlineMs,
      pass: () => this.pass(),
      onError,
      registry,
    });
  }

  start(): void {
    this.running = true;
    this.loop.start();
  }

  /** There is a new message: the next look need not wait for its time. */
  wake(): void {
    if (!this.running || !this.options.continuous) return;
    this.pump.wake();
    this.loop.wake();
  }

  /** Claims as many batches as there are lanes, now, and waits until what is in hand is done. */
  async runOnce(): Promise<PassEnd> {
    this.pump.wake();
    const before = this.pump.claimed;
    let end: PassEnd = 'idle';
    for (let batch = 0; batch < this.options.lanes().length && end !== 'stopped'; batch++) {
      end = await this.turn();
      await this.pump.idle();
    }
    await this.parts.crowds.idle();
    if (!this.running) await this.sessions.close();
    return end !== 'stopped' && this.pump.claimed > before ? 'drained' : end;
  }

  /** Messages that are being handled or sent now. */
  get inWork(): number {
    return this.pump.inWork;
  }

  ageMs(): number {
    return this.loop.ageMs();
  }

  /** Claims nothing more, gives back what was not started, and waits for the rest; after `graceMs` it is given up. */
  async stop(graceMs: number): Promise<void> {
    this.running = false;
    const timer = setTimeout(() => this.deadline.abort(new Error('the shutdown deadline has passed')), graceMs);
    try {
      this.pump.halt();
      // A claim under way comes in first: what it brings is given back with the rest.
      await this.loop.stop();
      await this.turning?.catch(() => undefined);
      await Promise.all([this.pump.stop(), this.parts.crowds.stop()]);
    } finally {
      clearTimeout(timer);
    }
  }

  private async pass(): Promise<void> {
    const end = await this.turn();
    if (this.options.continuous && end !== 'full' && end !== 'working')
      this.loop.pauseAtMost(Math.ceil(this.pump.nextLookMs()) || this.options.tickMs);
  }

  /** Two passes at once would claim the same places twice. */
  private turn(): Promise<PassEnd> {
    this.turning ??= this.reallyTurn().finally(() => {
      this.turning = undefined;
    });
    return this.turning;
  }

  private async reallyTurn(): Promise<PassEnd> {
    const startedAt = performance.now();
    const { claimed, looks } = this.pump;
    const end = await this.pump.pass();
    const messages = this.pump.claimed - claimed;
    // A tick at which no lane was due is no round, nor is a look that found no free place.
    if (messages > 0 || (end === 'idle' && this.pump.looks > looks))
      this.parts.events.emit({ name: 'round', lane: 0, end, messages, durationMs: performance.now() - startedAt });
    return end;
  }

  /** A place is free and there is more: claim at once. */
  private hungry(): void {
    if (this.running && this.options.continuous) this.loop.wake();
  }
}
