import type { SchedulerRegistry } from '@nestjs/schedule';
import { type Run, type RunStore, workRun } from '../delivery/runs/index.js';
import { MailroomLogger } from '../observability/logging/mailroom-logger.js';
import { FixedDelayLoop } from '../schedule/index.js';

/** A pass only claims. */
const passDeadlineMs = 60_000;
/** Runs that this process works on at the same time; others wait, or are taken by other instances. */
const mostRuns = 4;

/** Works runs off beside each other, on a loop that never dies. */
export class ReplayRunner {
  private readonly logger = new MailroomLogger('ReplayRunner');
  private readonly loop: FixedDelayLoop;
  private readonly stopping = new AbortController();
  private readonly working = new Set<Promise<void>>();

  constructor(
    private readonly stores: () => readonly RunStore[],
    private readonly owner: string,
    private readonly claimMs: number,
    pollMs: number,
    registry: SchedulerRegistry | undefined,
  ) {
    this.loop = new FixedDelayLoop({
      name: 'mailroom:replay:runs',
      delayMs: pollMs,
      passDeadlineMs,
      pass: () => this.pass(),
      onError: (error) => this.failed(error),
      registry,
    });
  }

  start(): void {
    this.loop.start();
  }

  wake(): void {
    this.loop.wake();
  }

  /** Ends after the steps under way; another instance goes on with the runs when their claims have run out. */
  async stop(): Promise<void> {
    this.stopping.abort();
    await this.loop.stop();
    await Promise.all(this.working);
  }

  /** Takes up what nobody works on. */
  private async pass(): Promise<void> {
    for (const store of this.stores()) {
      while (!this.stopping.signal.aborted && this.working.size < mostRuns) {
        const claimed = await store.claimNext(this.owner, this.claimMs);
        if (!claimed) break;
        this.takeUp(store, claimed.run, claimed.token);
      }
    }
  }

  private takeUp(store: RunStore, run: Run, token: Buffer): void {
    this.logger.log({ msg: 'a run goes on here', run: run.id, box: run.box, action: run.action, actor: run.actor });
    const work = workRun(store, run, token, this.stopping.signal, {
      claimMs: this.claimMs,
      // The sweep of the box lets what waited behind them come back.
      onFreed: async () => undefined,
      onStep: () => undefined,
    })
      .catch((error: unknown) => this.failed(error))
      .finally(() => {
        this.working.delete(work);
        if (!this.stopping.signal.aborted) this.loop.wake();
      });
    this.working.add(work);
  }

  private failed(error: unknown): void {
    const { message, code } = error as { message?: string; code?: string };
    this.logger.error({ msg: 'a run was interrupted; it goes on after a pause', code, error: message });
  }
}
