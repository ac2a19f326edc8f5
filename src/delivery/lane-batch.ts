import { endsTransaction, isConnectionError } from '../database/index.js';
import { ClaimLostError } from '../errors/claim-lost.error.js';
import { TransactionDoomedError } from '../errors/transaction-doomed.error.js';
import type { Lease } from '../lease/index.js';
import { type Outcome, storedError } from '../message/outcome.js';
import { runAttempt } from './attempt.js';
import { outcomeOfFailure, timeoutKind } from './attempt-outcome.js';
import type { BatchRules } from './batch-rules.js';
import { type Candidate, claimant, isSuspect } from './candidate.js';
import { newClaimToken } from './claim-token.js';
import type { HandlerSession } from './handler-session.js';
import { HandlerTransaction } from './handler-transaction.js';
import { groupName } from './lane-batch.store.js';
import type { LaneContext } from './lane-parts.js';
import type { LaneQueue, Runnable } from './lane-queue.js';
import { pause } from './pause.js';

export interface BatchResult {
  readonly handled: number;
  readonly timedOut: boolean;
}

/** A message of a batch that is ours. */
interface Member extends Runnable {
  readonly attempt: number;
  readonly group: string | null;
}

/** What has to be known of the whole batch while its groups are worked off. */
interface Batch {
  readonly rules: BatchRules;
  readonly token: Buffer;
  /** Entities of which a message was left unfinished: what follows must not pass it. */
  readonly blocked: Set<string>;
  timedOut: boolean;
}

/** A group that is in work elsewhere is looked at again after this long. */
const groupTakenMs = 1_000;
/** How often a batch that is not full looks for more. */
const lookAgainMs = 50;

/**
 * Messages of one kind that are handled together: consecutive in the lane, claimed under one token, each group in one
 * transaction with all of its success marks. A call that throws is done again message by message.
 */
export class LaneBatch {
  private readonly interrupted: AbortSignal;

  constructor(
    private readonly round: LaneContext,
    private readonly lease: Lease,
    private readonly session: HandlerSession,
    private readonly queue: LaneQueue,
  ) {
    this.interrupted = AbortSignal.any([lease.signal, round.deadline]);
  }

  async run(first: Runnable, rules: BatchRules, stopping: () => boolean): Promise<BatchResult> {
    const { solitude } = this.round.parts;
    const suspect = isSuspect(first.candidate);
    const leave = await solitude.enter(suspect);
    const batch: Batch = { rules, token: newClaimToken(), blocked: new Set(), timedOut: false };
    let members: Member[] = [];
    try {
      members = await this.collect(first, batch, suspect ? 1 : rules.size, stopping);
      for (const { candidate } of members)
        this.round.running.set(candidate.id, { id: candidate.id, token: batch.token });
      for (const group of groupsOf(members)) await this.runGroup(group, batch);
    } finally {
      for (const { candidate, permit } of members) {
        permit.giveBack();
        this.round.running.delete(candidate.id);
      }
      leave();
    }
    return { handled: members.length, timedOut: batch.timedOut };
  }

  /** Claims the first message and what follows it, until the batch is full or nothing of its kind is next. */
  private async collect(first: Runnable, batch: Batch, size: number, stopping: () => boolean): Promise<Member[]> {
    const members: Member[] = [];
    const giveUpAt = performance.now() + batch.rules.maxWaitMs;
    for (let next: Runnable | null = first; ; ) {
      const chunk: Member[] = [];
      while (next && members.length + chunk.length < size) {
        chunk.push(this.memberOf(next, batch.rules));
        next = await this.queue.nextOfKind(first.candidate, [...members, ...chunk], (other) =>
          this.fits(other, [...members, ...chunk], batch.rules),
        );
      }
      if (next) this.queue.putBack(next);
      members.push(...(await this.claim(chunk, batch, size === 1)));
      if (members.length >= size || members.length === 0 || stopping()) return members;
      const more = await this.queue.refillOfKind(first.candidate, members, (other) =>
        this.fits(other, members, batch.rules),
      );
      if (more === 'other') return members;
      if (more) {
        next = more;
        continue;
      }
      if (performance.now() >= giveUpAt) return members;
      await pause(Math.min(lookAgainMs, Math.max(1, giveUpAt - performance.now())), this.interrupted);
      if (this.interrupted.aborted) return members;
      this.queue.rewind();
      next = null;
    }
  }

  /** A message whose entity has an older one in another group stays out: groups are not done in the order of the lane. */
  private fits(candidate: Candidate, members: readonly Member[], rules: BatchRules): boolean {
    if (isSuspect(candidate)) return false;
    if (candidate.open === null) return true;
    const older = members.find((member) => member.candidate.open === candidate.open);
    return older === undefined || older.group === rules.groupOf(candidate);
  }

  private memberOf(runnable: Runnable, rules: BatchRules): Member {
    const { candidate } = runnable;
    return { ...runnable, attempt: Number(candidate.attempts) + 1, group: rules.groupOf(candidate) };
  }

  private async claim(chunk: readonly Member[], { token }: Batch, alone: boolean): Promise<Member[]> {
    if (chunk.length === 0) return [];
    const { parts, options } = this.round;
    const ours = await parts.batches
      .claim(
        this.lease,
        chunk.map(({ candidate }) => candidate.id),
        { token, claimant: claimant(parts.keeper.owner, alone && options.isOnlyLane()) },
      )
      .catch((error: unknown) => {
        for (const { permit } of chunk) permit.giveBack();
        throw error;
      });
    for (const { candidate, permit } of chunk) if (!ours.has(candidate.id)) permit.giveBack();
    return chunk.filter(({ candidate }) => ours.has(candidate.id));
  }

  private async runGroup(group: readonly Member[], batch: Batch): Promise<void> {
    const free = group.filter(({ candidate }) => candidate.open === null || !batch.blocked.has(candidate.open));
    const behind = group.filter((member) => !free.includes(member));
    if (behind.length > 0) await this.giveBack(behind, batch, 0);
    if (free.length === 0) return;
    if (!this.lease.isHeld() || this.round.deadline.aborted) return this.giveBack(free, batch, 0);
    const again = await this.call(free, batch);
    if (!again) return;
    for (const member of free) await this.runGroup([member], batch);
  }

  /** One call of the handler. True: it threw and its messages are to be tried one by one. */
  private async call(members: readonly Member[], batch: Batch): Promise<boolean> {
    const { parts } = this.round;
    const [head] = members;
    if (!head) return false;
    const startedAt = performance.now();
    const tx = new HandlerTransaction(parts.dataSource, this.session);
    const failures = new Map<string, unknown>();
    const lock = head.group === null ? null : groupName(head.candidate.source, head.candidate.type, head.group);
    try {
      if (lock !== null && !(await parts.batches.lockGroup(tx, lock))) {
        await tx.rollback('its group is in work elsewhere');
        await this.giveBack(members, batch, groupTakenMs);
        return false;
      }
      const end = await runAttempt(
        (signal) =>
          batch.rules.invoke(
            members.map(({ candidate }) => candidate),
            {
              signal,
              manager: () => tx.manager,
              fail: (id, error) => failures.set(id, error),
              started: () => {
                for (const { permit } of members) permit.started();
              },
            },
          ),
        head.handler.timeoutMs,
        this.interrupted,
      );
      for (const { permit } of members) permit.ended(end);
      switch (end.kind) {
        case 'returned':
          if (passesItsHead(members, failures)) {
            await tx.rollback('a message failed that a later one of its entity must not pass');
            return members.length > 1 ? true : await this.failAll(members, failures, batch, startedAt);
          }
          await this.succeed(members, failures, tx, lock, batch, startedAt);
          return false;
        case 'threw':
          await tx.rollback('the handler threw');
          return await this.threw(members, end.error, batch, startedAt);
        case 'timed-out':
          tx.doom('the handler timed out');
          batch.timedOut = true;
          for (const { candidate, attempt, handler } of members) {
            this.block(candidate, batch);
            this.round.running.delete(candidate.id);
            parts.stragglers.add(end.settled, {
              claim: { id: candidate.id, token: batch.token },
              outcome: outcomeOfFailure(end.error, attempt, handler.policy, timeoutKind),
              park: parts.box.parksOn(candidate.source),
              candidate,
            });
          }
          return false;
        case 'interrupted':
          tx.doom('the attempt was interrupted');
          await this.giveBack(members, batch, 0);
          return false;
      }
    } catch (error) {
      await tx.rollback('its outcome could not be written');
      if (error instanceof ClaimLostError) {
        this.lost(members, batch, error.message);
        return false;
      }
      return await this.threw(members, error, batch, startedAt);
    }
  }

  private async threw(members: readonly Member[], error: unknown, batch: Batch, startedAt: number): Promise<boolean> {
    if (members.length > 1 && batch.rules.onFailure === 'single' && !isDatabaseTrouble(error)) return true;
    const dead = batch.rules.onFailure === 'dead' && !isDatabaseTrouble(error);
    for (const member of members) {
      const outcome: Outcome = dead
        ? { kind: 'failed', error: storedError(error) }
        : outcomeOfFailure(error, member.attempt, member.handler.policy);
      await this.fail(member, outcome, batch, startedAt);
    }
    return false;
  }

  private async succeed(
    members: readonly Member[],
    failures: ReadonlyMap<string, unknown>,
    tx: HandlerTransaction,
    lock: string | null,
    batch: Batch,
    startedAt: number,
  ): Promise<void> {
    const { batches, store, events } = this.round.parts;
    const good = members.filter(({ candidate }) => !failures.has(candidate.id));
    const bad = members.filter(({ candidate }) => failures.has(candidate.id));
    for (const { candidate } of members) this.round.running.delete(candidate.id);
    const ids = good.map(({ candidate }) => candidate.id);
    if (ids.length > 0 || tx.isOpen) {
      if (tx.isOpen) await tx.assertInTransaction();
      this.refuseUnlessHeld(members);
      const send = tx.isOpen ? tx.send : store.sendAlone;
      const changed = ids.length === 0 ? 0 : await batches.succeed(send, this.lease, ids, batch.token);
      if (changed !== ids.length) {
        throw new ClaimLostError(ids[0] ?? '0', 'its claim or its lane was taken over; the batch was rolled back');
      }
      this.refuseUnlessHeld(members);
      if (lock !== null) await batches.dropGroup(tx, lock);
      if (tx.isOpen) await tx.commit();
    }
    for (const member of good) {
      events.emit({ name: 'succeeded', ...facts(member), durationMs: performance.now() - startedAt });
      await this.queue.close(member.candidate);
    }
    for (const member of bad) {
      const outcome = outcomeOfFailure(failures.get(member.candidate.id), member.attempt, member.handler.policy);
      await this.fail(member, outcome, batch, startedAt);
    }
  }

  private async failAll(
    members: readonly Member[],
    failures: ReadonlyMap<string, unknown>,
    batch: Batch,
    startedAt: number,
  ): Promise<false> {
    for (const member of members) {
      const error = failures.get(member.candidate.id);
      await this.fail(member, outcomeOfFailure(error, member.attempt, member.handler.policy), batch, startedAt);
    }
    return false;
  }

  private async fail(member: Member, outcome: Outcome, batch: Batch, startedAt: number): Promise<void> {
    const { completion, box, events } = this.round.parts;
    const { candidate } = member;
    const park = box.parksOn(candidate.source);
    this.round.running.delete(candidate.id);
    const completed = await completion.write(
      this.lease,
      { claim: { id: candidate.id, token: batch.token }, outcome, park },
      null,
    );
    if (!completed.written) return this.lost([member], batch, 'its outcome changed no row');
    const durationMs = performance.now() - startedAt;
    if (outcome.kind === 'failed') {
      events.emit({ name: 'failed', ...facts(member), durationMs, errorKind: outcome.error.kind });
      if (park) this.block(candidate, batch);
      else await this.queue.close(candidate);
    } else if (outcome.kind === 'retry') {
      this.block(candidate, batch);
      const { error, delayMs } = outcome;
      events.emit({ name: 'retrying', ...facts(member), durationMs, errorKind: error.kind, delayMs });
    }
  }

  private async giveBack(members: readonly Member[], batch: Batch, delayMs: number): Promise<void> {
    const ids = members.map(({ candidate }) => candidate.id);
    for (const { candidate } of members) {
      this.block(candidate, batch);
      this.round.running.delete(candidate.id);
    }
    if (!this.lease.isHeld()) return this.lost(members, batch, 'the lease of its lane was lost');
    if (!(await this.round.parts.batches.giveBack(this.lease, ids, batch.token, delayMs))) return;
    for (const member of members) this.round.parts.events.emit({ name: 'released', ...facts(member) });
  }

  private block({ open }: Candidate, batch: Batch): void {
    if (open !== null) batch.blocked.add(open);
  }

  private lost(members: readonly Member[], batch: Batch, reason: string): void {
    for (const member of members) {
      this.block(member.candidate, batch);
      this.round.parts.events.emit({ name: 'claim-lost', ...facts(member), reason });
    }
  }

  private refuseUnlessHeld(members: readonly Member[]): void {
    if (this.lease.isHeld()) return;
    throw new ClaimLostError(members[0]?.candidate.id ?? '0', 'the lease of its lane ran out before the commit');
  }
}

/** In the order of their first message. */
function groupsOf(members: readonly Member[]): Member[][] {
  const groups = new Map<string | null, Member[]>();
  for (const member of members) groups.set(member.group, [...(groups.get(member.group) ?? []), member]);
  return [...groups.values()];
}

/** A message of the call failed although a later one of its entity is in the same call. */
function passesItsHead(members: readonly Member[], failures: ReadonlyMap<string, unknown>): boolean {
  return members.some(
    ({ candidate }, index) =>
      failures.has(candidate.id) &&
      candidate.open !== null &&
      members.slice(index + 1).some((later) => later.candidate.open === candidate.open),
  );
}

/** The batch is not to blame: it is retried as a whole. */
function isDatabaseTrouble(error: unknown): boolean {
  return error instanceof TransactionDoomedError || endsTransaction(error) || isConnectionError(error);
}

function facts({ candidate, attempt }: Member): { id: string; source: string; type: string; attempt: number } {
  return { id: candidate.id, source: candidate.source, type: candidate.type, attempt };
}
