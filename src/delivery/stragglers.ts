import type { MailroomEvents } from '../observability/index.js';
import { announceFailure } from './announce-failure.js';
import type { Candidate } from './candidate.js';
import type { EntityOrderStore } from './entity-order.store.js';
import type { Completion } from './outcome-columns.js';

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
    private readonly store: { abandon(completion: Completion): Promise<boolean> },
    private readonly order: EntityOrderStore,
    private readonly events: Pick<MailroomEvents, 'emit'>,
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
    announceFailure(this.events, candidate, outcome, 0);
    if (outcome.kind === 'failed' && candidate.open !== null && !park) await this.order.comeBack(candidate.open);
  }
}
