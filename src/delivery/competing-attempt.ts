import { ClaimLostError } from '../errors/claim-lost.error.js';
import type { Outcome } from '../message/outcome.js';
import { announceFailure, attemptFacts } from './announce-failure.js';
import { runAttempt } from './attempt.js';
import { outcomeOfFailure, timeoutKind } from './attempt-outcome.js';
import { claimAuthority } from './claim-authority.js';
import type { ClaimsInHand } from './claims-in-hand.js';
import type { CompetingParts, InHand, JobEnd, Until } from './competing-parts.js';
import type { HandlerSession } from './handler-session.js';
import { HandlerTransaction } from './handler-transaction.js';
import { ageMs } from './message-facts.js';
import type { Completion } from './outcome-columns.js';
import type { Authority, Completed } from './outcome-writer.js';
import type { SessionPool } from './session-pool.js';

/** One attempt at one claimed message by its handler: what it wrote commits with the success mark. */
export class CompetingAttempt {
  constructor(
    private readonly parts: CompetingParts,
    private readonly hand: ClaimsInHand,
    private readonly sessions: SessionPool,
  ) {}

  run(message: InHand, { deadline }: Until): Promise<JobEnd> {
    return this.sessions.use((session) => this.attempt(message, session, deadline));
  }

  private async attempt(message: InHand, session: HandlerSession, deadline: AbortSignal): Promise<JobEnd> {
    const { claim, handler, candidate } = message;
    const startedAt = performance.now();
    let tx: HandlerTransaction | undefined;
    const end = await runAttempt(
      (abort) =>
        handler.invoke(candidate, {
          get signal() {
            return abort.signal;
          },
          attempt: message.attempt,
          started: () => message.permit.started(),
          manager: () => {
            tx ??= new HandlerTransaction(this.parts.dataSource, session);
            return tx.manager;
          },
        }),
      handler.timeoutMs,
      claim.lost,
      deadline,
    );
    message.permit.ended(end);
    // Heartbeats stop before the mark: both write the same row.
    this.hand.drop(claim.id);
    switch (end.kind) {
      case 'returned':
        return this.succeed(message, tx, startedAt);
      case 'threw':
        await tx?.rollback('the handler threw');
        return this.fail(message, end.error, startedAt);
      case 'timed-out':
        tx?.doom('the handler timed out');
        this.parts.stragglers.add(end.settled, { ...this.failure(message, end.error, timeoutKind), candidate });
        return { closed: [], timedOut: true };
      case 'interrupted':
        tx?.doom('the attempt was interrupted');
        await this.giveBack(message);
        return { closed: [], timedOut: false };
    }
  }

  private async succeed(message: InHand, tx: HandlerTransaction | undefined, startedAt: number): Promise<JobEnd> {
    const { writer, events } = this.parts;
    const success: Completion = { claim: message.claim, outcome: { kind: 'success' }, park: false };
    let completed: Completed;
    try {
      completed = tx?.isOpen
        ? await writer.commitSuccess(this.authority(message), tx, success, null, (error) =>
            this.failure(message, error),
          )
        : await this.markSuccess(message, success);
    } catch (error) {
      await tx?.rollback('the success could not be marked');
      if (error instanceof ClaimLostError) return this.lost(message, error.message);
      return this.fail(message, error, startedAt);
    }
    if (completed.written) {
      const durationMs = performance.now() - startedAt;
      const { candidate } = message;
      events.emit({ name: 'succeeded', ...attemptFacts(candidate), durationMs, ageMs: ageMs(candidate) });
      return { closed: [message.claim.id], timedOut: false };
    }
    if (completed.instead) return this.tell(message, completed.instead, startedAt);
    return this.lost(message, 'its outcome changed no row');
  }

  /** Together with others'; by itself, after a look, when that left a doubt. */
  private async markSuccess(message: InHand, success: Completion): Promise<Completed> {
    const written = await this.parts.successes.succeed(message.claim);
    if (written !== 'unknown') return { written, nextClaimed: false };
    return this.parts.writer.write(this.authority(message), success, null);
  }

  private async fail(message: InHand, thrown: unknown, startedAt: number): Promise<JobEnd> {
    const failure = this.failure(message, thrown);
    const { written } = await this.parts.writer.write(this.authority(message), failure, null);
    return written ? this.tell(message, failure.outcome, startedAt) : this.lost(message, 'its outcome changed no row');
  }

  /** At the shutdown deadline the message is given back; after a lost claim it is not ours to write. */
  private async giveBack(message: InHand): Promise<void> {
    if (!message.claim.isHeld()) {
      this.lost(message, 'its claim was lost');
      return;
    }
    const released: Completion = { claim: message.claim, outcome: { kind: 'released' }, park: false };
    const { written } = await this.parts.writer.write(this.authority(message), released, null);
    if (written) this.parts.events.emit({ name: 'released', ...attemptFacts(message.candidate) });
  }

  private failure({ claim, candidate, attempt, handler }: InHand, thrown: unknown, kind?: string): Completion {
    const outcome = outcomeOfFailure(thrown, attempt, handler.policy, kind);
    return { claim, outcome, park: this.parts.box.parksOn(candidate.source) };
  }

  private tell(message: InHand, outcome: Outcome, startedAt: number): JobEnd {
    const { candidate, claim } = message;
    announceFailure(this.parts.events, candidate, outcome, performance.now() - startedAt);
    const closes = outcome.kind === 'failed' && !this.parts.box.parksOn(candidate.source);
    return { closed: closes ? [claim.id] : [], timedOut: false };
  }

  private lost({ candidate }: InHand, reason: string): JobEnd {
    this.parts.events.emit({ name: 'claim-lost', ...attemptFacts(candidate), reason });
    return { closed: [], timedOut: false };
  }

  private authority({ claim }: InHand): Authority {
    return claimAuthority(this.parts.store, claim);
  }
}
