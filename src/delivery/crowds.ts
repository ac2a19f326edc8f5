import { BatchPace } from '../schedule/index.js';
import type { Crowd } from './crowd.js';
import type { Aside, EntityOrderStore } from './entity-order.store.js';
import { pause } from './pause.js';

export interface CrowdListener {
  /** A crowd is read again: it is out of the way, or waits no more. */
  ended(): void;
  /** Messages of a type were put off. */
  putOff(what: {
    readonly source: string;
    readonly type: string;
    readonly count: number;
    readonly reason: string;
  }): void;
  failed(error: unknown): void;
}

/** A type in a lane, and why its messages cannot be handled. */
export interface ClosedOffType {
  readonly lane: number;
  readonly source: string;
  readonly type: string;
  readonly reason: string;
}

/** Moves up to `limit` messages of a crowd; false: it is no crowd any more. */
type Step = (limit: number) => Promise<boolean>;

/** Each of them makes every read longer by a condition. Those beyond it are moved by the readers, step by step. */
const mostCrowds = 20;
const firstStep = 500;
/** Where fewer of those looked at are of the type, the others are near enough to be reached step by step. */
const most = 0.5;
/** Larger steps would hold their locks for longer, and fill the binary log with one transaction. */
const largestStep = 5_000;
/** It rests as long as it works. */
const restFactor = 1;

/**
 * Moves crowds out of the queue beside the consumer, so that nobody waits for it: while that lasts the queue is read
 * without them. Nothing is lost with the process: what was not moved is still in the queue, and is met again.
 */
export class Crowds {
  private readonly moving = new Map<string, { readonly crowd: Crowd; readonly step: Step }>();
  private readonly stopping = new AbortController();
  private turning: Promise<void> | undefined;

  constructor(
    private readonly order: Pick<EntityOrderStore, 'stepAside'>,
    private readonly listener: CrowdListener,
  ) {}

  /** Left out when the queue is read. */
  list(): readonly Crowd[] {
    return [...this.moving.values()].map(({ crowd }) => crowd);
  }

  /** After a first step with an order unit, from message `from` on: goes on where that ended, if there is more. */
  followUnit(open: string, from: string, { more, last, head }: Aside): void {
    if (!more || last === null) return;
    let after = last;
    this.follow({ kind: 'unit', open, from }, async (limit) => {
      const aside = await this.order.stepAside(open, after, limit);
      after = aside.last ?? after;
      // With another head it may be somebody's turn; whoever still waits is met again.
      return aside.more && aside.head === head;
    });
  }

  /**
   * After `moved` messages of a type were put off: goes on with `putOff`, if they were most of those that it looked at.
   * `putOff` looks at the first `limit` due messages of the lane and returns how many it moved.
   */
  followType(
    { lane, source, type, reason }: ClosedOffType,
    moved: number,
    putOff: (limit: number) => Promise<number>,
  ): void {
    if (moved < firstStep * most) return;
    this.follow({ kind: 'type', lane, source, type }, async (limit) => {
      const count = await putOff(limit);
      if (count > 0) this.listener.putOff({ source, type, count, reason });
      return count >= limit * most;
    });
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

  private follow(crowd: Crowd, step: Step): void {
    const key = JSON.stringify(crowd.kind === 'unit' ? [crowd.open] : [crowd.lane, crowd.source, crowd.type]);
    if (this.stopping.signal.aborted || this.moving.size >= mostCrowds || this.moving.has(key)) return;
    this.moving.set(key, { crowd, step });
    this.start();
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
      for (const [key, { step }] of this.moving) {
        const startedAt = performance.now();
        if (!(await this.step(step, pace))) {
          this.moving.delete(key);
          this.listener.ended();
        }
        await pause(pace.took(performance.now() - startedAt), this.stopping.signal);
        if (this.stopping.signal.aborted) break;
      }
    }
  }

  private async step(step: Step, pace: BatchPace): Promise<boolean> {
    try {
      return await step(pace.limit);
    } catch (error) {
      pace.failed();
      this.listener.failed(error);
      return false;
    }
  }
}
