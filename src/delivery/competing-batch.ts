import { BatchCall, lockOf } from './batch-call.js';
import { type Batch, groupsOf, type Member } from './batch-member.js';
import { BatchOutcomes } from './batch-outcomes.js';
import { BatchPermits } from './batch-permits.js';
import type { BatchRules } from './batch-rules.js';
import { noLane } from './batch-shares.js';
import type { ClaimsInHand } from './claims-in-hand.js';
import { CompetingBatchHold } from './competing-batch-hold.js';
import type { CompetingParts, InHand, JobEnd, Until } from './competing-parts.js';
import type { GroupLockStore } from './group-lock.store.js';
import type { SessionPool } from './session-pool.js';
import { Turns } from './turns.js';

/**
 * Messages of one kind that a competing consumer claimed together: each group in one call and one transaction with all of
 * its success marks. A call that throws is done again message by message.
 */
export class CompetingBatch {
  /** Groups in work in this process: another call for one waits here instead of knocking at the database. */
  private readonly turns = new Turns();

  constructor(
    private readonly parts: CompetingParts,
    private readonly groups: GroupLockStore,
    private readonly hand: ClaimsInHand,
    private readonly sessions: SessionPool,
  ) {}

  async run(job: readonly [InHand, ...InHand[]], rules: BatchRules, until: Until): Promise<JobEnd> {
    const [{ candidate, handler, permit }] = job;
    const hold = new CompetingBatchHold(this.parts, this.hand, job, until.deadline);
    const parts = { ...this.parts, groups: this.groups, sendAlone: this.parts.store.sendAlone };
    const outcomes = new BatchOutcomes(parts, hold);
    const permits = new BatchPermits(permit, () => this.parts.box.readiness(candidate));
    const batch: Batch = { handler, rules, blocked: new Set(), timeouts: 0 };
    let members: readonly Member[] = job.map((message) => ({ ...message, group: null }));
    try {
      members = await Promise.all(
        members.map(async (member) => ({ ...member, group: await rules.groupOf(member.candidate) })),
      );
    } catch (error) {
      permits.giveBack();
      await outcomes.giveBack(members, batch, 0);
      throw error;
    }
    await this.sessions.use((session) =>
      this.workOff(groupsOf(members), permits, batch, outcomes, until, new BatchCall(parts, hold, session, outcomes)),
    );
    permits.giveBack();
    return { closed: hold.ended, timedOut: batch.timeouts > 0 };
  }

  /** Call after call; those of a call that threw are done one by one. What is not started is given back. */
  private async workOff(
    calls: (readonly Member[])[],
    permits: BatchPermits,
    batch: Batch,
    outcomes: BatchOutcomes,
    until: Until,
    call: BatchCall,
  ): Promise<void> {
    const apart = new Set<Member>();
    for (let next = calls.shift(); next; next = calls.shift()) {
      const members = next;
      const goesOn = !until.stopping() && !until.deadline.aborted && batch.timeouts === 0;
      const permit = goesOn ? await permits.next(until.deadline) : null;
      if (!permit) {
        const rest = [...members, ...calls.flat()];
        const [{ candidate }] = members as [Member];
        this.parts.oneByOne.expect(noLane, candidate, rest.filter((member) => apart.has(member)).length);
        return outcomes.giveBack(rest, batch, 0);
      }
      const lock = lockOf(members);
      const work = () => call.run(members, permit, batch);
      for (const member of (await (lock === null ? work() : this.turns.run(lock, work))).toReversed()) {
        apart.add(member);
        calls.unshift([member]);
      }
    }
  }
}
