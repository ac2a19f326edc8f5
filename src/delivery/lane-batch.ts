import type { Lease } from '../lease/index.js';
import { BatchCall } from './batch-call.js';
import { BatchCollector } from './batch-collector.js';
import { type Batch, groupsOf, type Member } from './batch-member.js';
import { BatchOutcomes } from './batch-outcomes.js';
import { BatchPermits } from './batch-permits.js';
import type { BatchRules } from './batch-rules.js';
import { isSuspect } from './candidate.js';
import type { HandlerSession } from './handler-session.js';
import { LaneBatchHold } from './lane-batch-hold.js';
import type { LaneContext } from './lane-parts.js';
import type { LaneQueue, Runnable } from './lane-queue.js';

export interface BatchResult {
  readonly handled: number;
  /** Calls in a row that ran out of time. */
  readonly timeouts: number;
}

export interface BatchSituation {
  /** Take nothing more into the batch. */
  readonly full: () => boolean;
  /** Calls in a row that ran out of time so far. */
  readonly timeouts: number;
}

/**
 * Messages of one kind that are handled together: consecutive in the lane, claimed under one token, each group in one
 * transaction with all of its success marks. A call that throws is done again message by message.
 */
export class LaneBatch {
  private readonly interrupted: AbortSignal;
  private readonly collector: BatchCollector;
  private readonly outcomes: BatchOutcomes;
  private readonly call: BatchCall;

  constructor(
    private readonly round: LaneContext,
    private readonly lease: Lease,
    session: HandlerSession,
    queue: LaneQueue,
  ) {
    this.interrupted = AbortSignal.any([lease.signal, round.deadline]);
    this.collector = new BatchCollector(round, lease, queue, this.interrupted);
    const hold = new LaneBatchHold(round, lease, queue, this.interrupted);
    const parts = { ...round.parts, sendAlone: round.parts.store.sendAlone };
    this.outcomes = new BatchOutcomes(parts, hold);
    this.call = new BatchCall(parts, hold, session, this.outcomes);
  }

  async run(first: Runnable, rules: BatchRules, { full, timeouts }: BatchSituation): Promise<BatchResult> {
    const { candidate, handler } = first;
    const suspect = isSuspect(candidate);
    const leave = await this.round.parts.solitude.enter(suspect);
    const { box } = this.round.parts;
    const permits = new BatchPermits(first.permit, () => box.readiness(candidate.source, candidate.type));
    const batch: Batch = { handler, rules, blocked: new Set(), timeouts };
    let members: readonly Member[] = [];
    try {
      const alone = suspect || this.round.parts.oneByOne.take(this.round.lane, candidate);
      const size = alone ? 1 : rules.size;
      members = await this.collector.collect(candidate, batch, size, full);
      await this.workOff(groupsOf(members), permits, batch);
    } finally {
      permits.giveBack();
      for (const member of members) this.round.running.delete(member.candidate.id);
      leave();
    }
    return { handled: members.length, timeouts: batch.timeouts };
  }

  /**
   * Call after call; those of a call that threw are done one by one. When there is a reason to stop, what was not started
   * is given back.
   */
  private async workOff(calls: (readonly Member[])[], permits: BatchPermits, batch: Batch): Promise<void> {
    const apart = new Set<Member>();
    for (let next = calls.shift(); next; next = calls.shift()) {
      const inTurn = next.filter(({ candidate }) => candidate.open === null || !batch.blocked.has(candidate.open));
      const behind = next.filter((member) => !inTurn.includes(member));
      if (behind.length > 0) await this.outcomes.giveBack(behind, batch, 0);
      if (inTurn.length === 0) continue;
      const permit = this.goesOn(batch) ? await permits.next(this.interrupted) : null;
      if (!permit) {
        const rest = [...inTurn, ...calls.flat()];
        const [{ candidate }] = next as [Member];
        this.round.parts.oneByOne.expect(this.round.lane, candidate, rest.filter((member) => apart.has(member)).length);
        return this.outcomes.giveBack(rest, batch, 0);
      }
      for (const member of (await this.call.run(inTurn, permit, batch)).toReversed()) {
        apart.add(member);
        calls.unshift([member]);
      }
    }
  }

  private goesOn({ timeouts }: Batch): boolean {
    const { stopping, deadline, options } = this.round;
    return !stopping.aborted && !deadline.aborted && this.lease.isHeld() && timeouts < options.timeoutsPerRound;
  }
}
