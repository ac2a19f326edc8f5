import type { DataSource } from 'typeorm';
import { isDeadlock, isLockUnavailable } from '../database/index.js';
import { ClaimLostError } from '../errors/claim-lost.error.js';
import { TransactionDoomedError } from '../errors/transaction-doomed.error.js';
import { storedError } from '../message/outcome.js';
import { runAttempt } from './attempt.js';
import type { BatchHold } from './batch-hold.js';
import { type Batch, type Member, passesItsHead } from './batch-member.js';
import { type BatchOutcomes, type Call, failureOf } from './batch-outcomes.js';
import { type GroupLockStore, groupName } from './group-lock.store.js';
import type { HandlerSession } from './handler-session.js';
import { HandlerTransaction } from './handler-transaction.js';
import type { Permit } from './lane-handler.js';
import { isTransient } from './outcome-writer.js';

/** A group that is in work elsewhere is looked at again after this long. */
const groupTakenMs = 1_000;

/** What is to be done one by one after a call. */
const nothing: readonly Member[] = [];

/** One call of a batch handler: its group, its transaction, and what follows from how it ended. */
export class BatchCall {
  constructor(
    private readonly parts: { readonly dataSource: DataSource; readonly groups: GroupLockStore },
    private readonly hold: BatchHold,
    private readonly session: HandlerSession,
    private readonly outcomes: BatchOutcomes,
  ) {}

  /** Calls the handler with messages of one group. Returns those that are to be tried one by one. Uses the permit up. */
  async run(members: readonly Member[], permit: Permit, batch: Batch): Promise<readonly Member[]> {
    const tx = new HandlerTransaction(this.parts.dataSource, this.session);
    const call: Call = { members, tx, lock: lockOf(members), startedAt: performance.now() };
    // Those of a call that is done one by one lost their heartbeat with it.
    this.hold.keep(members);
    try {
      return await this.attempt(call, permit, batch);
    } catch (error) {
      await tx.rollback('its outcome could not be written');
      if (error instanceof ClaimLostError) {
        this.outcomes.lost(members, batch, error.message);
        return nothing;
      }
      return this.threw(call, error, isTransient(error), batch);
    } finally {
      permit.giveBack();
    }
  }

  private async attempt(call: Call, permit: Permit, batch: Batch): Promise<readonly Member[]> {
    const { members, tx, lock } = call;
    if (lock !== null && !(await this.parts.groups.take(tx, lock))) {
      await tx.rollback('its group is in work elsewhere');
      await this.outcomes.giveBack(members, batch, groupTakenMs);
      return nothing;
    }
    const failures = new Map<string, unknown>();
    const end = await runAttempt(
      ({ signal }) =>
        batch.rules.invoke(
          members.map(({ candidate }) => candidate),
          {
            signal,
            manager: () => tx.manager,
            fail: (id, error) => failures.set(id, error),
            started: () => permit.started(),
          },
        ),
      batch.handler.timeoutMs,
      ...this.hold.interruptions(members),
    );
    permit.ended(end);
    if (end.kind !== 'timed-out') batch.timeouts = 0;
    switch (end.kind) {
      case 'returned':
        return this.returned(call, failures, batch);
      case 'threw': {
        const undone = tx.isDoomed;
        await tx.rollback('the handler threw');
        return this.threw(call, end.error, undone, batch);
      }
      case 'timed-out':
        tx.doom('the handler timed out');
        batch.timeouts++;
        this.outcomes.leave(members, end.error, end.settled, batch);
        return nothing;
      case 'interrupted':
        tx.doom('the attempt was interrupted');
        await this.outcomes.giveBack(members, batch, 0);
        return nothing;
    }
  }

  private async returned(call: Call, failures: ReadonlyMap<string, unknown>, batch: Batch): Promise<readonly Member[]> {
    const { members, tx } = call;
    const good = members.filter(({ candidate }) => !failures.has(candidate.id));
    // A later message must not pass one of its entity that failed.
    const apart = good.length > 0 && passesItsHead(members, failures);
    if (apart) await tx.rollback('a message failed that a later one of its entity must not pass');
    if (apart) return members;
    // Without a success there is no mark, and without a mark no fence for what was written.
    if (good.length === 0) await tx.rollback('every message of the call failed');
    else await this.outcomes.succeed(good, call, batch);
    for (const member of members) {
      if (!failures.has(member.candidate.id)) continue;
      const outcome = failureOf(failures.get(member.candidate.id), member, batch);
      await this.outcomes.fail(member, outcome, call, batch);
    }
    return nothing;
  }

  /** @param undone the database ended the transaction: no message is to blame, and the batch is retried as a whole */
  private async threw(call: Call, error: unknown, undone: boolean, batch: Batch): Promise<readonly Member[]> {
    const { members } = call;
    const blameless = undone || isLostTransaction(error);
    if (members.length > 1 && batch.rules.onFailure === 'single' && !blameless) return members;
    const dead = batch.rules.onFailure === 'dead' && !blameless;
    for (const member of members) {
      const outcome = dead ? ({ kind: 'failed', error: storedError(error) } as const) : failureOf(error, member, batch);
      await this.outcomes.fail(member, outcome, call, batch);
    }
    return nothing;
  }
}

export function lockOf([head]: readonly Member[]): string | null {
  if (!head || head.group === null) return null;
  return groupName(head.candidate.source, head.candidate.type, head.group);
}

/** Also of a transaction that the handler opened by itself. */
function isLostTransaction(error: unknown): boolean {
  return error instanceof TransactionDoomedError || isDeadlock(error) || isLockUnavailable(error);
}
