import type { MailroomEvents } from '../observability/index.js';
import type { Candidate } from './candidate.js';
import type { EntityOrderStore } from './entity-order.store.js';
import type { Completion, LaneStore } from './lane.store.js';

interface Straggler extends Completion {
  readonly candidate: Candidate;
}

/**
 * Handlers that ran out of time and have not settled yet. Their message stays claimed until they do, so that its retry
 * does not run beside them in this process; a handler that never settles loses its claim when that runs out, and
 * recovery takes the message back.
 */
export class Stragglers {
  private count = 0;

  constructor(
    private readonly store: LaneStore,
    private readonly order: EntityOrderStore,
    private readonly events: MailroomEvents,
  ) {}

  /** How many handlers are still running past their time. */
  get size(): number {
    return this.count;
  }

  /** Writes the outcome once `settled` resolves. Never rejects: what cannot be written is left to recovery. */
  add(settled: Promise<void>, straggler: Straggler): void {
    this.count++;
    settled
      .then(() => this.finish(straggler))
      .catch(() => undefined)
      .finally(() => this.count--);
  }

  private async finish(straggler: Straggler): Promise<void> {
    const { candidate, outcome, park } = straggler;
    if (!(await this.store.abandon(straggler))) return;
    const facts = {
      id: candidate.id,
      source: candidate.source,
      type: candidate.type,
      attempt: Number(candidate.attempts) + 1,
    };
    if (outcome.kind === 'retry') {
      this.events.emit({
        name: 'retrying',
        ...facts,
        durationMs: 0,
        errorKind: outcome.error.kind,
        delayMs: outcome.delayMs,
      });
    } else if (outcome.kind === 'failed') {
      this.events.emit({ name: 'failed', ...facts, durationMs: 0, errorKind: outcome.error.kind });
      if (candidate.open !== null && !park) await this.order.comeBack(candidate.open);
    }
  }
}
