import { AsyncResource } from 'node:async_hooks';
import type { SchedulerRegistry } from '@nestjs/schedule';

export interface FixedDelayLoopOptions {
  /** Name in @nestjs/schedule's registry. */
  readonly name: string;
  /** Pause between the end of one pass and the start of the next. */
  readonly delayMs: number;
  /** After it the pass counts as hung: it is left behind and reported, and the loop goes on. */
  readonly passDeadlineMs: number;
  readonly pass: () => Promise<void>;
  readonly onError: (error: unknown) => void;
  readonly registry?: SchedulerRegistry | undefined;
}

/**
 * Runs `pass` again and again with a fixed pause after each end, so two passes never run at once. It cannot die: a pass
 * that throws or hangs is reported, and the next one comes after the pause. `wake` makes the next pass come at once.
 */
export class FixedDelayLoop {
  /** A pass belongs to nobody's request, also when a request woke the loop: its timers start in this scope. */
  private readonly scope = new AsyncResource('mailroom:loop');
  private timer: NodeJS.Timeout | undefined;
  private passing: Promise<void> | undefined;
  private woken = false;
  private nextDelayMs = Number.POSITIVE_INFINITY;
  private stopped = true;
  private lastTurnAt = performance.now();

  constructor(private readonly options: FixedDelayLoopOptions) {}

  start(): void {
    if (!this.stopped) return;
    this.stopped = false;
    this.lastTurnAt = performance.now();
    this.arm(0);
  }

  /** The next pass comes at once, or right after the one under way. */
  wake(): void {
    if (this.stopped || this.woken) return;
    this.woken = true;
    if (!this.passing) this.arm(0);
  }

  /** Called by a pass: the pause after it is at most `ms`. */
  pauseAtMost(ms: number): void {
    this.nextDelayMs = Math.min(this.nextDelayMs, Math.max(1, ms));
  }

  /** No pass starts any more; resolves when the one under way has ended or was left behind. */
  async stop(): Promise<void> {
    this.stopped = true;
    this.disarm();
    await this.passing;
  }

  /** Milliseconds since a pass last ended, with success or not: a growing age means that the loop stands still. */
  ageMs(): number {
    return performance.now() - this.lastTurnAt;
  }

  private arm(delayMs: number): void {
    this.disarm();
    const timer = this.scope.runInAsyncScope(() => setTimeout(() => this.turn(), delayMs));
    this.timer = timer;
    // Shown to whoever lists the application's timers; cleared by the registry too when the application closes.
    this.options.registry?.addTimeout(this.options.name, timer);
  }

  private disarm(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    const { registry, name } = this.options;
    if (registry?.doesExist('timeout', name)) registry.deleteTimeout(name);
  }

  private turn(): void {
    this.woken = false;
    this.nextDelayMs = this.options.delayMs;
    this.passing = this.bounded()
      .catch((error: unknown) => this.options.onError(error))
      .finally(() => {
        this.passing = undefined;
        this.lastTurnAt = performance.now();
        if (!this.stopped) this.arm(this.woken ? 0 : this.nextDelayMs);
      });
  }

  private async bounded(): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const hung = new Promise<never>((_resolve, reject) => {
      const { name, passDeadlineMs } = this.options;
      timer = setTimeout(
        () => reject(new Error(`${name}: a pass did not end within ${passDeadlineMs} ms and was left behind`)),
        passDeadlineMs,
      );
    });
    try {
      // The call itself may throw before it returns a promise.
      await Promise.race([Promise.resolve().then(() => this.options.pass()), hung]);
    } finally {
      clearTimeout(timer);
    }
  }
}
