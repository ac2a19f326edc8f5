import type { Lease } from '../lease/index.js';
import { announceRecovered } from './announce-recovered.js';
import type { HandlerSession } from './handler-session.js';
import type { Claim } from './lane.store.js';
import { LaneAttempt } from './lane-attempt.js';
import { LaneBatch } from './lane-batch.js';
import type { LaneContext, LaneParts, LaneRoundOptions } from './lane-parts.js';
import { LaneQueue, type Runnable } from './lane-queue.js';
import { pause } from './pause.js';
import type { Recovered } from './recovery.store.js';

/** Why a round ended. `full` is the only end after which the next round starts at once. */
export type RoundEnd =
  | 'unavailable'
  | 'idle'
  | 'drained'
  | 'full'
  | 'yielded'
  | 'timeouts'
  | 'lost'
  | 'surplus'
  | 'stopped';

/** A shorter pause for a kind at its limit is waited out with the lane in hand; for a longer one the round ends. */
const longestPauseMs = 1_000;
/** All pauses of a round: then its lease is offered to others, as after a full batch. */
const mostPausesMs = 2_000;

/** One pass over a lane: take its lease, then message by message until there is a reason to stop. */
export class LaneRound implements LaneContext {
  readonly running = new Map<string, Claim>();
  handled = 0;
  private goesOnUntil = Number.NEGATIVE_INFINITY;
  /** After the round: milliseconds until messages at a limit are due again; null when none are. */
  resumeInMs: number | null = null;

  constructor(
    readonly lane: number,
    readonly parts: LaneParts,
    readonly options: LaneRoundOptions,
    /** Aborted: claim nothing more. */
    readonly stopping: AbortSignal,
    /** Aborted: handlers are given up. */
    readonly deadline: AbortSignal,
  ) {}

  /**
   * @param session the lane's connection of the application; it takes one at its first use, and the caller closes it
   * @param afterFull the round before this one was full, so there is work: it is not looked for
   * @param atLeastMs a round that is full sooner goes on for so long
   */
  async run(session: HandlerSession, afterFull: boolean, atLeastMs: number): Promise<RoundEnd> {
    this.goesOnUntil = performance.now() + atLeastMs;
    const { keeper, store, events, recovery } = this.parts;
    const entrance = await keeper.enter(this.parts.leaseName(this.lane));
    if (!entrance) return 'unavailable';
    let busy = afterFull;
    try {
      busy ||= await store.hasWork(this.lane, this.parts.box.paused());
    } finally {
      if (!busy) await entrance.leave();
    }
    if (!busy) {
      this.resumeInMs = this.parts.closedOff.resumeInMs(this.lane);
      return 'idle';
    }

    let recovered: readonly Recovered[] = [];
    const lease = await entrance.take({
      maxHoldMs: atLeastMs + this.options.batchSize * this.options.handlerTimeoutMs,
      onTaken: async (tx) => {
        recovered = await recovery.recoverLane(tx, this.lane);
      },
      observer: {
        renewed: async (held, tookMs) => {
          events.emit({ name: 'lease-renewed', lease: held.name, tookMs });
          await store.extend(held, [...this.running.values()]);
        },
        renewalFailed: (held) => events.emit({ name: 'lease-renewal-failed', lease: held.name }),
        lost: (held, reason) => events.emit({ name: 'lease-lost', lease: held.name, reason }),
      },
    });
    if (!lease) return 'unavailable';
    try {
      await announceRecovered(recovered, this.parts);
      this.parts.slots.join();
      try {
        return await this.consume(lease, session);
      } finally {
        this.parts.slots.leave();
      }
    } finally {
      await lease.release();
    }
  }

  private async consume(lease: Lease, session: HandlerSession): Promise<RoundEnd> {
    const { store, order, box, unknown, closedOff, crowds, events } = this.parts;
    const queue = new LaneQueue(this.lane, store, order, box, unknown, closedOff, crowds, events);
    const attempts = new LaneAttempt(this, lease, session, queue);
    const batches = new LaneBatch(this, lease, session, queue);
    const interrupted = AbortSignal.any([lease.signal, this.stopping]);
    let timeouts = 0;
    let paused = 0;
    for (;;) {
      const end = this.reasonToStop(lease, timeouts);
      if (end) return end;
      const slot = await this.parts.slots.take(interrupted);
      if (!slot) return this.reasonToStop(lease, timeouts) ?? 'stopped';
      let runnable: Runnable | null;
      try {
        runnable = await queue.next(null);
        if (runnable?.handler.batch) {
          const full = () => this.reasonToStop(lease, 0) !== null;
          const done = await batches.run(runnable, runnable.handler.batch, { full, timeouts });
          this.handled += done.handled;
          timeouts = done.timeouts;
        } else if (runnable) {
          for (let claimed = await attempts.claim(runnable); claimed; ) {
            this.handled++;
            const result = await attempts.run(claimed, () => !slot.isWanted && this.reasonToStop(lease, 0) === null);
            timeouts = result.timedOut ? timeouts + 1 : 0;
            claimed = result.next;
          }
        }
      } finally {
        slot.end();
      }
      if (runnable) continue;
      if (queue.yieldLane) return 'yielded';
      this.resumeInMs = await queue.pauseMs(longestPauseMs);
      if (this.resumeInMs === null || this.resumeInMs >= longestPauseMs) return 'drained';
      if (paused >= mostPausesMs) return 'full';
      paused += this.resumeInMs;
      await pause(this.resumeInMs, interrupted);
      queue.rewind();
    }
  }

  private reasonToStop(lease: Lease, timeouts: number): RoundEnd | null {
    if (this.stopping.aborted) return 'stopped';
    if (!lease.isHeld()) return 'lost';
    if (timeouts >= this.options.timeoutsPerRound) return 'timeouts';
    if (this.options.shouldGiveBack(this.lane)) return 'surplus';
    return this.handled >= this.options.batchSize && performance.now() >= this.goesOnUntil ? 'full' : null;
  }
}
