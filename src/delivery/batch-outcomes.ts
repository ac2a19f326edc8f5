import type { DataSource } from 'typeorm';
import { ClaimLostError } from '../errors/claim-lost.error.js';
import type { Outcome } from '../message/outcome.js';
import type { MailroomEvents } from '../observability/index.js';
import { outcomeOfFailure, timeoutKind } from './attempt-outcome.js';
import type { BatchHold } from './batch-hold.js';
import { type Batch, factsOf, type Member } from './batch-member.js';
import type { GroupLockStore } from './group-lock.store.js';
import type { HandlerTransaction } from './handler-transaction.js';
import { ageMs } from './message-facts.js';
import type { Completion } from './outcome-columns.js';
import { type Completed, isTransient, type Send } from './outcome-writer.js';
import type { Stragglers } from './stragglers.js';

/** One call of a batch handler. */
export interface Call {
  readonly members: readonly Member[];
  readonly tx: HandlerTransaction;
  /** Name of the group's lock row; null without groups. */
  readonly lock: string | null;
  readonly startedAt: number;
}

/** What a batch works with, whatever entitles to its outcomes. */
export interface BatchParts {
  readonly box: { parksOn(source: string): boolean };
  readonly dataSource: DataSource;
  readonly groups: GroupLockStore;
  readonly stragglers: Stragglers;
  readonly events: Pick<MailroomEvents, 'emit'>;
  readonly sendAlone: Send;
}

/** Writes what became of the messages of a batch, and tells it. */
export class BatchOutcomes {
  constructor(
    private readonly parts: BatchParts,
    private readonly hold: BatchHold,
  ) {}

  /**
   * All successes in one statement and one commit with what the handler wrote.
   * @throws ClaimLostError when a claim is not ours any more: nothing of the call was kept
   */
  async succeed(good: readonly Member[], call: Call, batch: Batch): Promise<void> {
    const { hold } = this;
    const { tx, lock } = call;
    // Heartbeats stop before an outcome: both write the same row.
    hold.letGo(good);
    if (!tx.isOpen) return this.succeedWithoutWrites(good, call, batch);
    await tx.assertInTransaction();
    this.refuseUnlessHeld(good);
    await hold.remember(tx.send, good);
    if ((await hold.succeed(tx.send, good)) !== good.length)
      throw new ClaimLostError(idOf(good), 'a claim or the lane was taken over; the batch was rolled back');
    if (lock !== null) await this.parts.groups.drop(tx, lock);
    this.refuseUnlessHeld(good);
    try {
      await tx.commit();
    } catch (error) {
      for (const member of good) {
        const failure = this.completionOf(member, failureOf(error, member, batch));
        const settled = await hold.settle(member, this.successOf(member), failure);
        await this.settled(member, settled, call, batch);
      }
      return;
    }
    for (const member of good) await this.succeeded(member, call);
  }

  /** Writes the failure of one message by itself, after the rollback or beside the success of the others. */
  async fail(member: Member, outcome: Outcome, call: Call, batch: Batch): Promise<void> {
    this.hold.letGo([member]);
    const written = await this.hold.write(member, this.completionOf(member, outcome));
    if (written.written) await this.failed(member, outcome, call, batch);
    else this.lost([member], batch, 'its outcome changed no row');
  }

  /** Gives messages back, the attempt with them; due again after `delayMs`. */
  async giveBack(members: readonly Member[], batch: Batch, delayMs: number): Promise<void> {
    this.hold.letGo(members);
    for (const member of members) block(member, batch);
    if (!this.hold.isHeld(members)) return this.lost(members, batch, 'the lease of its lane, or its claim, was lost');
    if (!(await this.hold.giveBack(members, delayMs))) return;
    for (const member of members) this.parts.events.emit({ name: 'released', ...factsOf(member) });
  }

  /** The call ran out of time: its messages stay claimed until the handler has really ended. */
  leave(members: readonly Member[], error: unknown, settled: Promise<void>, batch: Batch): void {
    const { stragglers } = this.parts;
    this.hold.letGo(members);
    for (const member of members) {
      block(member, batch);
      const outcome = failureOf(error, member, batch, timeoutKind);
      stragglers.add(settled, { ...this.completionOf(member, outcome), candidate: member.candidate });
    }
  }

  lost(members: readonly Member[], batch: Batch, reason: string): void {
    this.hold.letGo(members);
    for (const member of members) {
      block(member, batch);
      this.parts.events.emit({ name: 'claim-lost', ...factsOf(member), reason });
    }
  }

  /** Nothing to commit: if the one statement is in doubt, each success is written by itself. */
  private async succeedWithoutWrites(good: readonly Member[], call: Call, batch: Batch): Promise<void> {
    const { hold } = this;
    const { sendAlone } = this.parts;
    this.refuseUnlessHeld(good);
    const together = await hold.succeed(sendAlone, good).catch((error: unknown) => {
      if (!isTransient(error)) throw error;
      return null;
    });
    if (together === good.length) {
      for (const member of good) await this.succeeded(member, call);
      return hold.remember(sendAlone, good);
    }
    for (const member of good) {
      const written = await hold.write(member, this.successOf(member));
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
    this.parts.events.emit({ name: 'succeeded', ...factsOf(member), durationMs, ageMs: ageMs(member.candidate) });
    this.tellIfLate(member);
    await this.hold.closed(member);
  }

  /** After a failure was written. */
  private async failed(member: Member, outcome: Outcome, { startedAt }: Call, batch: Batch): Promise<void> {
    const { box, events } = this.parts;
    const durationMs = performance.now() - startedAt;
    if (outcome.kind === 'failed') {
      events.emit({ name: 'failed', ...factsOf(member), durationMs, errorKind: outcome.error.kind });
      this.tellIfLate(member);
      if (box.parksOn(member.candidate.source)) block(member, batch);
      else await this.hold.closed(member);
    } else if (outcome.kind === 'retry') {
      block(member, batch);
      const { error, delayMs } = outcome;
      events.emit({ name: 'retrying', ...factsOf(member), durationMs, errorKind: error.kind, delayMs });
    }
  }

  private tellIfLate(member: Member): void {
    if (!this.hold.isLate(member)) return;
    this.parts.events.emit({ name: 'late', ...factsOf(member) });
  }

  private successOf(member: Member): Completion {
    return { claim: member.claim, outcome: { kind: 'success' }, park: false };
  }

  private completionOf(member: Member, outcome: Outcome): Completion {
    const park = this.parts.box.parksOn(member.candidate.source);
    return { claim: member.claim, outcome, park };
  }

  private refuseUnlessHeld(members: readonly Member[]): void {
    if (this.hold.isHeld(members)) return;
    throw new ClaimLostError(idOf(members), 'the lease of its lane, or its claim, ran out before the commit');
  }
}

function idOf([first]: readonly Member[]): string {
  return first?.candidate.id ?? '0';
}

export function failureOf(thrown: unknown, { attempt }: Member, { handler }: Batch, kind?: string): Outcome {
  return outcomeOfFailure(thrown, attempt, handler.policy, kind);
}

function block({ candidate }: Member, batch: Batch): void {
  if (candidate.open !== null) batch.blocked.add(candidate.open);
}
