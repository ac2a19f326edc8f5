import { ClaimLostError } from '../errors/claim-lost.error.js';
import type { Lease } from '../lease/index.js';
import type { Outcome } from '../message/outcome.js';
import { outcomeOfFailure, timeoutKind } from './attempt-outcome.js';
import { type Batch, claimOf, factsOf, type Member } from './batch-member.js';
import type { HandlerTransaction } from './handler-transaction.js';
import type { LaneContext } from './lane-parts.js';
import type { LaneQueue } from './lane-queue.js';
import type { Completion } from './outcome-columns.js';
import { type Completed, isTransient, type Send } from './outcome-writer.js';

/** One call of a batch handler. */
export interface Call {
  readonly members: readonly Member[];
  readonly tx: HandlerTransaction;
  /** Name of the group's lock row; null without groups. */
  readonly lock: string | null;
  readonly startedAt: number;
}

/** Writes what became of the messages of a batch, and tells it. */
export class BatchOutcomes {
  constructor(
    private readonly round: LaneContext,
    private readonly lease: Lease,
    private readonly queue: LaneQueue,
  ) {}

  /**
   * All successes in one statement, joined with the lane's fence, and one commit with what the handler wrote.
   * @throws ClaimLostError when a claim or the lane is not ours any more: nothing of the call was kept
   */
  async succeed(good: readonly Member[], call: Call, batch: Batch): Promise<void> {
    const { batches, completion } = this.round.parts;
    const { tx, lock } = call;
    const ids = good.map(({ candidate }) => candidate.id);
    this.stopHeartbeats(good);
    if (!tx.isOpen) return this.succeedWithoutWrites(good, ids, call, batch);
    await tx.assertInTransaction();
    this.refuseUnlessHeld(ids);
    await this.remember(good, tx.send);
    if ((await batches.succeed(tx.send, this.lease, ids, batch.token)) !== ids.length)
      throw new ClaimLostError(ids[0] ?? '0', 'a claim or the lane was taken over; the batch was rolled back');
    if (lock !== null) await this.round.parts.groups.drop(tx, lock);
    this.refuseUnlessHeld(ids);
    try {
      await tx.commit();
    } catch (error) {
      for (const member of good) {
        const failure = this.completionOf(member, batch, failureOf(error, member, batch));
        const settled = await completion.settle(this.lease, this.successOf(member, batch), failure);
        await this.settled(member, settled, call, batch);
      }
      return;
    }
    for (const member of good) await this.succeeded(member, call);
  }

  /** Writes the failure of one message by itself, after the rollback or beside the success of the others. */
  async fail(member: Member, outcome: Outcome, call: Call, batch: Batch): Promise<void> {
    this.stopHeartbeats([member]);
    const written = await this.round.parts.completion.write(
      this.lease,
      this.completionOf(member, batch, outcome),
      null,
    );
    if (written.written) await this.failed(member, outcome, call, batch);
    else this.lost([member], batch, 'its outcome changed no row');
  }

  /** Gives messages back, the attempt with them; due again after `delayMs`. */
  async giveBack(members: readonly Member[], batch: Batch, delayMs: number): Promise<void> {
    this.stopHeartbeats(members);
    for (const member of members) block(member, batch);
    if (!this.lease.isHeld()) return this.lost(members, batch, 'the lease of its lane was lost');
    const ids = members.map(({ candidate }) => candidate.id);
    if (!(await this.round.parts.batches.giveBack(this.lease, ids, batch.token, delayMs))) return;
    for (const member of members) this.round.parts.events.emit({ name: 'released', ...factsOf(member) });
  }

  /** The call ran out of time: its messages stay claimed until the handler has really ended. */
  leave(members: readonly Member[], error: unknown, settled: Promise<void>, batch: Batch): void {
    const { stragglers } = this.round.parts;
    this.stopHeartbeats(members);
    for (const member of members) {
      block(member, batch);
      const outcome = failureOf(error, member, batch, timeoutKind);
      stragglers.add(settled, { ...this.completionOf(member, batch, outcome), candidate: member.candidate });
    }
  }

  lost(members: readonly Member[], batch: Batch, reason: string): void {
    this.stopHeartbeats(members);
    for (const member of members) {
      block(member, batch);
      this.round.parts.events.emit({ name: 'claim-lost', ...factsOf(member), reason });
    }
  }

  /** Nothing to commit: if the one statement is in doubt, each success is written by itself. */
  private async succeedWithoutWrites(
    good: readonly Member[],
    ids: readonly string[],
    call: Call,
    batch: Batch,
  ): Promise<void> {
    const { batches, completion, store } = this.round.parts;
    this.refuseUnlessHeld(ids);
    const together = await batches.succeed(store.sendAlone, this.lease, ids, batch.token).catch((error: unknown) => {
      if (!isTransient(error)) throw error;
      return null;
    });
    if (together === ids.length) {
      for (const member of good) await this.succeeded(member, call);
      return this.remember(good, store.sendAlone);
    }
    for (const member of good) {
      const written = await completion.write(this.lease, this.successOf(member, batch), null);
      await this.settled(member, written, call, batch);
    }
  }

  private async settled(member: Member, completed: Completed, call: Call, batch: Batch): Promise<void> {
    if (completed.written) await this.succeeded(member, call);
    else if (completed.instead) await this.failed(member, completed.instead, call, batch);
    else this.lost([member], batch, 'its outcome changed no row');
  }

  private async succeeded(member: Member, { startedAt }: Call): Promise<void> {
    const durationMs = performance.now() - startedAt;
    this.round.parts.events.emit({ name: 'succeeded', ...factsOf(member), durationMs });
    this.tellIfLate(member);
    await this.queue.close(member.candidate);
  }

  /** After a failure was written. */
  private async failed(member: Member, outcome: Outcome, { startedAt }: Call, batch: Batch): Promise<void> {
    const { box, events } = this.round.parts;
    const durationMs = performance.now() - startedAt;
    if (outcome.kind === 'failed') {
      events.emit({ name: 'failed', ...factsOf(member), durationMs, errorKind: outcome.error.kind });
      this.tellIfLate(member);
      if (box.parksOn(member.candidate.source)) block(member, batch);
      else await this.queue.close(member.candidate);
    } else if (outcome.kind === 'retry') {
      block(member, batch);
      const { error, delayMs } = outcome;
      events.emit({ name: 'retrying', ...factsOf(member), durationMs, errorKind: error.kind, delayMs });
    }
  }

  private tellIfLate(member: Member): void {
    if (!this.queue.turns.positionOf(member.candidate)?.late) return;
    this.round.parts.events.emit({ name: 'late', ...factsOf(member) });
  }

  private async remember(members: readonly Member[], send: Send): Promise<void> {
    const positions = members.flatMap(({ candidate }) => this.queue.turns.positionOf(candidate) ?? []);
    await this.round.parts.order.reorder?.remember(send, positions);
  }

  private successOf(member: Member, batch: Batch): Completion {
    return { claim: claimOf(member, batch), outcome: { kind: 'success' }, park: false };
  }

  private completionOf(member: Member, batch: Batch, outcome: Outcome): Completion {
    const park = this.round.parts.box.parksOn(member.candidate.source);
    return { claim: claimOf(member, batch), outcome, park };
  }

  /** Heartbeats stop before an outcome: both write the same row. */
  private stopHeartbeats(members: readonly Member[]): void {
    for (const { candidate } of members) this.round.running.delete(candidate.id);
  }

  private refuseUnlessHeld([id = '0']: readonly string[]): void {
    if (!this.lease.isHeld()) throw new ClaimLostError(id, 'the lease of its lane ran out before the commit');
  }
}

export function failureOf(thrown: unknown, { attempt }: Member, { handler }: Batch, kind?: string): Outcome {
  return outcomeOfFailure(thrown, attempt, handler.policy, kind);
}

function block({ candidate }: Member, batch: Batch): void {
  if (candidate.open !== null) batch.blocked.add(candidate.open);
}
