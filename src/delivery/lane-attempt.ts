import { ClaimLostError } from '../errors/claim-lost.error.js';
import type { Lease } from '../lease/index.js';
import type { Outcome } from '../message/outcome.js';
import { runAttempt } from './attempt.js';
import { outcomeOfFailure, timeoutKind } from './attempt-outcome.js';
import { claimant, isSuspect } from './candidate.js';
import { newClaimToken } from './claim-token.js';
import type { HandlerSession } from './handler-session.js';
import { HandlerTransaction } from './handler-transaction.js';
import type { ClaimRequest, Completion } from './lane.store.js';
import type { Completed } from './lane-completion.js';
import type { LaneContext } from './lane-parts.js';
import type { LaneQueue, Runnable } from './lane-queue.js';
import { ageMs, type MessageFacts, messageFacts } from './message-facts.js';

/** A message that is ours, with the place in the process that it occupies. */
export interface Claimed extends Runnable {
  readonly request: ClaimRequest;
  readonly attempt: number;
  leave(): void;
}

export interface AttemptResult {
  /** The next message, claimed together with this one's success. */
  readonly next: Claimed | null;
  readonly timedOut: boolean;
}

/** One attempt at one message of a lane: claim it, run its handler, write what came of it. */
export class LaneAttempt {
  private readonly interrupted: AbortSignal;

  constructor(
    private readonly round: LaneContext,
    private readonly lease: Lease,
    private readonly session: HandlerSession,
    private readonly queue: LaneQueue,
  ) {
    this.interrupted = AbortSignal.any([lease.signal, round.deadline]);
  }

  /** Null when somebody else moved the message meanwhile. */
  async claim(runnable: Runnable): Promise<Claimed | null> {
    const leave = await this.round.parts.solitude.enter(isSuspect(runnable.candidate));
    const claimed = this.prepare(runnable, leave);
    try {
      if (await this.round.parts.store.claim(this.lease, claimed.request)) return claimed;
    } catch (error) {
      leave();
      runnable.permit.giveBack();
      throw error;
    }
    leave();
    runnable.permit.giveBack();
    return null;
  }

  async run(claimed: Claimed, wantsNext: () => boolean): Promise<AttemptResult> {
    const { candidate, handler, request } = claimed;
    const running = this.round.running;
    const startedAt = performance.now();
    let tx: HandlerTransaction | undefined;
    running.set(request.id, request);
    try {
      const end = await runAttempt(
        (abort) =>
          handler.invoke(candidate, {
            get signal() {
              return abort.signal;
            },
            attempt: claimed.attempt,
            started: () => claimed.permit.started(),
            manager: () => {
              tx ??= new HandlerTransaction(this.round.parts.dataSource, this.session);
              return tx.manager;
            },
          }),
        handler.timeoutMs,
        this.interrupted,
      );
      claimed.permit.ended(end);
      // Heartbeats stop before the mark: both write the same row.
      running.delete(request.id);
      switch (end.kind) {
        case 'returned':
          return await this.succeed(claimed, tx, wantsNext, startedAt);
        case 'threw':
          await tx?.rollback('the handler threw');
          await this.fail(claimed, end.error, startedAt);
          return { next: null, timedOut: false };
        case 'timed-out':
          tx?.doom('the handler timed out');
          this.round.parts.stragglers.add(end.settled, {
            claim: request,
            outcome: outcomeOfFailure(end.error, claimed.attempt, handler.policy, timeoutKind),
            park: this.round.parts.box.parksOn(candidate.source),
            candidate,
          });
          return { next: null, timedOut: true };
        case 'interrupted':
          tx?.doom('the attempt was interrupted');
          await this.interrupt(claimed);
          return { next: null, timedOut: false };
      }
    } finally {
      running.delete(request.id);
      claimed.leave();
    }
  }

  private async succeed(
    claimed: Claimed,
    tx: HandlerTransaction | undefined,
    wantsNext: () => boolean,
    startedAt: number,
  ): Promise<AttemptResult> {
    const { completion, events, order, store } = this.round.parts;
    const { candidate, request } = claimed;
    const following = wantsNext() ? await this.following(claimed) : null;
    const next = following?.request ?? null;
    const success = { claim: request, outcome: { kind: 'success' } as const, park: false };
    const position = this.queue.turns.positionOf(candidate);
    const together = tx?.isOpen ?? false;
    let completed: Completed;
    try {
      if (position && tx?.isOpen) await order.reorder?.remember(tx.send, [position]);
      completed = tx?.isOpen
        ? await completion.commitSuccess(this.lease, tx, success, next, (error) => this.failure(claimed, error))
        : await completion.write(this.lease, success, next);
    } catch (error) {
      await tx?.rollback('the success could not be marked');
      this.giveUp(following);
      if (error instanceof ClaimLostError) this.lost(claimed, error.message);
      else await this.fail(claimed, error, startedAt);
      return { next: null, timedOut: false };
    }
    if (!completed.nextClaimed) this.giveUp(following);
    if (completed.written) {
      const durationMs = performance.now() - startedAt;
      events.emit({ name: 'succeeded', ...facts(claimed), durationMs, ageMs: ageMs(candidate) });
      if (position?.late) events.emit({ name: 'late', ...facts(claimed) });
      await this.queue.close(candidate);
      if (position && !together) await order.reorder?.remember(store.sendAlone, [position]);
    } else if (completed.instead) {
      await this.tell(claimed, completed.instead, startedAt);
    } else {
      this.lost(claimed, 'its outcome changed no row');
    }
    return { next: completed.nextClaimed ? following : null, timedOut: false };
  }

  /** The next message in turn, prepared to be claimed with this one's success; a suspect must wait to be alone. */
  private async following(claimed: Claimed): Promise<Claimed | null> {
    const runnable = await this.queue.next(claimed.candidate);
    if (!runnable) return null;
    if (isSuspect(runnable.candidate) || isSuspect(claimed.candidate) || runnable.handler.batch) {
      this.queue.putBack(runnable);
      return null;
    }
    // Not awaited: this message still occupies its own place, which a waiting suspect needs.
    const leave = this.round.parts.solitude.tryEnter();
    if (leave) return this.prepare(runnable, leave);
    this.queue.putBack(runnable);
    return null;
  }

  private giveUp(following: Claimed | null): void {
    if (!following) return;
    following.leave();
    this.queue.putBack(following);
  }

  private prepare(runnable: Runnable, leave: () => void): Claimed {
    const { candidate, handler } = runnable;
    const { options, parts } = this.round;
    const alone = options.isOnlyLane() || isSuspect(candidate);
    return {
      ...runnable,
      attempt: Number(candidate.attempts) + 1,
      leave,
      request: {
        id: candidate.id,
        token: newClaimToken(),
        claimant: claimant(parts.keeper.owner, alone),
        claimMs: handler.transactional ? null : options.orphanAfterMs,
      },
    };
  }

  private failure(claimed: Claimed, thrown: unknown): Completion {
    return {
      claim: claimed.request,
      outcome: outcomeOfFailure(thrown, claimed.attempt, claimed.handler.policy),
      park: this.round.parts.box.parksOn(claimed.candidate.source),
    };
  }

  private async fail(claimed: Claimed, thrown: unknown, startedAt: number): Promise<void> {
    const failure = this.failure(claimed, thrown);
    const { written } = await this.round.parts.completion.write(this.lease, failure, null);
    if (written) await this.tell(claimed, failure.outcome, startedAt);
    else this.lost(claimed, 'its outcome changed no row');
  }

  /** After a failure was written. */
  private async tell(claimed: Claimed, outcome: Outcome, startedAt: number): Promise<void> {
    const { box, events } = this.round.parts;
    const durationMs = performance.now() - startedAt;
    if (outcome.kind === 'failed') {
      events.emit({ name: 'failed', ...facts(claimed), durationMs, errorKind: outcome.error.kind });
      if (this.queue.turns.positionOf(claimed.candidate)?.late) events.emit({ name: 'late', ...facts(claimed) });
      if (!box.parksOn(claimed.candidate.source)) await this.queue.close(claimed.candidate);
    } else if (outcome.kind === 'retry') {
      events.emit({
        name: 'retrying',
        ...facts(claimed),
        durationMs,
        errorKind: outcome.error.kind,
        delayMs: outcome.delayMs,
      });
    }
  }

  /** At the shutdown deadline the message is given back; after a lost lease it is not ours to write. */
  private async interrupt(claimed: Claimed): Promise<void> {
    if (!this.lease.isHeld()) return this.lost(claimed, 'the lease of its lane was lost');
    const released = { claim: claimed.request, outcome: { kind: 'released' } as const, park: false };
    if ((await this.round.parts.completion.write(this.lease, released, null)).written) {
      this.round.parts.events.emit({ name: 'released', ...facts(claimed) });
    }
  }

  private lost(claimed: Claimed, reason: string): void {
    this.round.parts.events.emit({ name: 'claim-lost', ...facts(claimed), reason });
  }
}

function facts({ candidate, attempt }: Claimed): MessageFacts {
  return messageFacts(candidate, attempt);
}
