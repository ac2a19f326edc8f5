import { randomBytes } from 'node:crypto';
import type { DataSource } from 'typeorm';
import type { Lease, LeaseKeeper } from '../lease/index.js';
import type { MailroomEvents } from '../observability/index.js';
import type { EntityOrderStore } from './entity-order.store.js';
import type { HandlerSession } from './handler-session.js';
import { LaneAttempt } from './lane-attempt.js';
import type { LaneCompletion } from './lane-completion.js';
import type { LaneBox } from './lane-handler.js';
import { LaneQueue } from './lane-queue.js';
import type { Claim, LaneStore } from './lane.store.js';
import type { Recovered, RecoveryStore } from './recovery.store.js';
import type { Solitude } from './solitude.js';
import type { Stragglers } from './stragglers.js';
import type { UnknownTypes } from './unknown-types.js';

/** Why a round ended. `full` is the only end after which the next round starts at once. */
export type RoundEnd = 'unavailable' | 'idle' | 'drained' | 'full' | 'yielded' | 'timeouts' | 'lost' | 'stopped';

export interface LaneRoundOptions {
  readonly batchSize: number;
  readonly handlerTimeoutMs: number;
  readonly timeoutsPerRound: number;
  /** Claim length of handlers that are not transactional. */
  readonly orphanAfterMs: number;
  /** Nothing else of this process runs beside this lane, so a message that ends the process can be blamed for it. */
  readonly onlyLane: boolean;
}

/** Everything a lane works with; shared by all lanes of a box but for the session. */
export interface LaneParts {
  readonly box: LaneBox;
  readonly keeper: LeaseKeeper;
  readonly store: LaneStore;
  readonly order: EntityOrderStore;
  readonly recovery: RecoveryStore;
  readonly completion: LaneCompletion;
  readonly unknown: UnknownTypes;
  readonly stragglers: Stragglers;
  readonly solitude: Solitude;
  readonly events: MailroomEvents;
  readonly dataSource: DataSource;
  newSession(): HandlerSession;
  leaseName(lane: number): string;
}

/** One pass over a lane: take its lease, then message by message until there is a reason to stop. */
export class LaneRound {
  readonly running = new Map<string, Claim>();
  handled = 0;

  constructor(
    readonly lane: number,
    readonly parts: LaneParts,
    readonly options: LaneRoundOptions,
    /** Aborted: claim nothing more. */
    readonly stopping: AbortSignal,
    /** Aborted: handlers are given up. */
    readonly deadline: AbortSignal,
  ) {}

  async run(): Promise<RoundEnd> {
    const { keeper, store, events, recovery } = this.parts;
    const entrance = await keeper.enter(this.parts.leaseName(this.lane));
    if (!entrance) return 'unavailable';
    let busy = false;
    try {
      busy = await store.hasWork(this.lane);
    } finally {
      if (!busy) await entrance.leave();
    }
    if (!busy) return 'idle';

    let recovered: readonly Recovered[] = [];
    const lease = await entrance.take({
      maxHoldMs: this.options.batchSize * this.options.handlerTimeoutMs,
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
    const session = this.parts.newSession();
    try {
      await this.announce(recovered);
      return await this.consume(lease, session);
    } finally {
      await session.close();
      await lease.release();
    }
  }

  private async consume(lease: Lease, session: HandlerSession): Promise<RoundEnd> {
    const { store, order, box, unknown, events } = this.parts;
    const queue = new LaneQueue(this.lane, store, order, box, unknown, events);
    const attempts = new LaneAttempt(this, lease, session, queue);
    let timeouts = 0;
    for (let claimed = null as Awaited<ReturnType<LaneAttempt['claim']>>; ; ) {
      if (!claimed) {
        const end = this.reasonToStop(lease, timeouts);
        if (end) return end;
        const runnable = await queue.next(null);
        if (!runnable) return queue.yieldLane ? 'yielded' : 'drained';
        claimed = await attempts.claim(runnable);
        continue;
      }
      const result = await attempts.run(claimed, () => this.reasonToStop(lease, 0) === null);
      this.handled++;
      timeouts = result.timedOut ? timeouts + 1 : 0;
      claimed = result.next;
    }
  }

  private reasonToStop(lease: Lease, timeouts: number): RoundEnd | null {
    if (this.stopping.aborted) return 'stopped';
    if (!lease.isHeld()) return 'lost';
    if (timeouts >= this.options.timeoutsPerRound) return 'timeouts';
    // One message is in work when the next one is chosen, so this is asked before it is counted.
    return this.handled >= this.options.batchSize ? 'full' : null;
  }

  private async announce(recovered: readonly Recovered[]): Promise<void> {
    await announceRecovered(recovered, this.parts);
  }
}

/** Tells what recovery did, and lets the followers of messages that ended with it come back. */
export async function announceRecovered(
  recovered: readonly Recovered[],
  { events, order, box }: Pick<LaneParts, 'events' | 'order' | 'box'>,
): Promise<void> {
  for (const { orphan, status } of recovered) {
    const facts = { id: orphan.id, source: orphan.source, type: orphan.type, attempt: Number(orphan.attempts) };
    events.emit({ name: 'recovered', ...facts, status });
    if (status !== 'failed') continue;
    events.emit({ name: 'failed', ...facts, durationMs: 0, errorKind: 'crashed' });
    if (orphan.open !== null && !box.parksOn(orphan.source)) await order.comeBack(orphan.open);
  }
}

/** 128 random bits: the fence of one claim. */
export function newClaimToken(): Buffer {
  return randomBytes(16);
}
