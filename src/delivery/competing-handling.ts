import type { ClaimsInHand } from './claims-in-hand.js';
import { CompetingAttempt } from './competing-attempt.js';
import { CompetingBatch } from './competing-batch.js';
import type { CompetingParts, CompetingWork, InHand, JobEnd, Until } from './competing-parts.js';
import type { GroupLockStore } from './group-lock.store.js';
import type { SessionPool } from './session-pool.js';

/** Hands the messages of a competing inbox to their handlers: one by one, or those of one permit to a batch handler. */
export class CompetingHandling implements CompetingWork {
  private readonly attempt: CompetingAttempt;
  private readonly batch: CompetingBatch;

  constructor(parts: CompetingParts, groups: GroupLockStore, hand: ClaimsInHand, sessions: SessionPool) {
    this.attempt = new CompetingAttempt(parts, hand, sessions);
    this.batch = new CompetingBatch(parts, groups, hand, sessions);
  }

  together(turn: readonly InHand[]): readonly InHand[] {
    const [first] = turn;
    if (!first?.handler.batch) return turn.slice(0, 1);
    return turn.filter(({ permit }) => permit === first.permit);
  }

  async run(job: readonly InHand[], until: Until): Promise<JobEnd> {
    const [first, ...others] = job;
    if (!first) return { closed: [], timedOut: false };
    const rules = first.handler.batch;
    return rules ? this.batch.run([first, ...others], rules, until) : this.attempt.run(first, until);
  }
}
