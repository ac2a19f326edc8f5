import { BatchPace } from '../schedule/index.js';
import type { Crowd } from './crowd.js';
import type { Aside, EntityOrderStore } from './entity-order.store.js';
import { pause } from './pause.js';

interface Moving extends Crowd {
  /** The last message that stepped aside. */
  readonly last: string;
  /** The message that the others wait for. */
  readonly head: string | null;
}

/** Each of them makes every read longer by a condition. Those beyond it are moved by the readers, step by step. */
const mostCrowds = 20;
const firstStep = 500;
/** Larger steps would hold their locks for longer, and fill the binary log with one transaction. */
const largestStep = 5_000;
/** It rests as long as it works. */
const restFactor = 1;

/**
 * Moves crowds out of the queue beside the consumer, so that nobody waits for it: while that lasts the queue is read
 * without them. Nothing is lost with the process: what was not moved is still in the queue, and is met again.
 */
export class Crowds {
  private readonly moving = new Map<string, Moving>();
  private readonly stopping = new AbortController();
  private turning: Promise<void> | undefined;

  constructor(
    private readonly order: Pick<EntityOrderStore, 'stepAside'>,
    /** A crowd is read again: it is out of the way, or waits no more. */
    private readonly onEnd: () => void,
    private readonly onError: (error: unknown) => void,
  ) {}

  /** Left out when the queue is read. */
  list(): readonly Crowd[] {
    return [...this.moving.values()];
  }

  /** After a first step, from message `from` on: goes on where it ended, if there is more. */
  follow(open: string, from: string, { more, last, head }: Aside): void {
    if (!more || last === null || this.stopping.signal.aborted || this.moving.size >= mostCrowds) return;
    if (this.moving.has(open)) return;
    this.moving.set(open, { open, from, last, head });
    this.start();
  }

  /** Resolves when no crowd is being moved. */
  async idle(): Promise<void> {
    while (this.turning) await this.turning;
  }

  /** Lets the step under way end. */
  async stop(): Promise<void> {
    this.stopping.abort();
    await this.turning;
  }

  private start(): void {
    if (this.turning || this.moving.size === 0 || this.stopping.signal.aborted) return;
    this.turning = this.turn().finally(() => {
      this.turning = undefined;
      // One may have come between the last look and this moment.
      this.start();
    });
  }

  private async turn(): Promise<void> {
    const pace = new BatchPace(largestStep, firstStep, restFactor);
    while (this.moving.size > 0 && !this.stopping.signal.aborted) {
      for (const crowd of this.moving.values()) {
        const startedAt = performance.now();
        await this.step(crowd, pace);
        await pause(pace.took(performance.now() - startedAt), this.stopping.signal);
        if (this.stopping.signal.aborted) break;
      }
    }
  }

  private async step(crowd: Moving, pace: BatchPace): Promise<void> {
    try {
      const { more, last, head } = await this.order.stepAside(crowd.open, crowd.last, pace.limit);
      // With another head it may be somebody's turn; whoever still waits is met again.
      if (more && last !== null && head === crowd.head) this.moving.set(crowd.open, { ...crowd, last });
      else this.end(crowd);
    } catch (error) {
      pace.failed();
      this.end(crowd);
      this.onError(error);
    }
  }

  private end({ open }: Crowd): void {
    this.moving.delete(open);
    this.onEnd();
  }
}
