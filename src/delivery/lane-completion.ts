import { endsTransaction, isConnectionError } from '../database/index.js';
import { ClaimLostError } from '../errors/claim-lost.error.js';
import { DatabaseUnavailableError } from '../errors/database-unavailable.error.js';
import type { Lease } from '../lease/index.js';
import type { Outcome } from '../message/outcome.js';
import type { HandlerTransaction } from './handler-transaction.js';
import type { ClaimRequest, Completion, LaneStore } from './lane.store.js';
import { pause } from './pause.js';

/** What came of writing an outcome. */
export interface Completed {
  /** False: the message was not ours any more, nothing of it was kept. */
  readonly written: boolean;
  /** The next message was claimed in the same statement. */
  readonly nextClaimed: boolean;
  /** The commit was not carried out; this outcome was written instead. */
  readonly instead?: Outcome;
}

const nothing: Completed = { written: false, nextClaimed: false };

/**
 * Writes outcomes so that each is true: a success stands if and only if the handler's writes do, and never for a holder
 * that was replaced.
 */
export class LaneCompletion {
  constructor(private readonly store: LaneStore) {}

  /**
   * Marks the success of a message inside the handler's transaction, claims the next one with it, and commits.
   * @param onFailure the outcome to write if the COMMIT turns out not to have been carried out
   * @throws ClaimLostError when the lane or the claim is not ours any more: the transaction was rolled back
   * @throws any database error of the mark: the transaction was rolled back
   */
  async commitSuccess(
    lease: Lease,
    tx: HandlerTransaction,
    completion: Completion,
    next: ClaimRequest | null,
    onFailure: (error: unknown) => Completion,
  ): Promise<Completed> {
    const { claim } = completion;
    await tx.assertInTransaction();
    refuseUnlessHeld(lease, claim.id);
    const changed = await this.store.complete(tx.send, lease, completion, next);
    const written = changed === (next ? 2 : 1) || (changed === 1 && (await this.isMarked(tx, claim.id)));
    if (!written)
      throw new ClaimLostError(claim.id, 'its claim or its lane was taken over; the handler was rolled back');
    refuseUnlessHeld(lease, claim.id);
    try {
      await tx.commit();
    } catch (error) {
      return this.settleDoubt(lease, completion, next, onFailure(error));
    }
    return { written: true, nextClaimed: changed === 2 };
  }

  /**
   * Writes an outcome by itself: a failure, a release, or the success of a handler that wrote nothing through its
   * manager. Database trouble is waited out while the lease lasts.
   */
  async write(lease: Lease, completion: Completion, next: ClaimRequest | null): Promise<Completed> {
    for (let attempt = 1; ; attempt++) {
      if (!lease.isHeld()) return nothing;
      try {
        const changed = await this.store.complete(this.store.sendAlone, lease, completion, next);
        if (changed === (next ? 2 : 1)) return { written: true, nextClaimed: next !== null };
        return await this.readBack(completion, next);
      } catch (error) {
        if (!isTransient(error)) throw error;
        await pause(Math.min(1_000, 50 * 2 ** attempt), lease.signal);
      }
    }
  }

  /**
   * A COMMIT that was rejected may have been carried out all the same. The failure is written with the claim's token,
   * which waits for a commit that is still under way: if that changes a row, the commit was not carried out; if it
   * changes none, the rows say what happened.
   */
  private async settleDoubt(
    lease: Lease,
    success: Completion,
    next: ClaimRequest | null,
    failure: Completion,
  ): Promise<Completed> {
    for (let attempt = 1; lease.isHeld(); attempt++) {
      try {
        const changed = await this.store.complete(this.store.sendAlone, lease, failure, null);
        if (changed === 1) return { ...nothing, instead: failure.outcome };
        return await this.readBack(success, next);
      } catch (error) {
        if (!isTransient(error)) throw error;
        await pause(Math.min(1_000, 50 * 2 ** attempt), lease.signal);
      }
    }
    return nothing;
  }

  /** After a statement of unknown or partial effect: what do the rows say? */
  private async readBack({ claim, outcome }: Completion, next: ClaimRequest | null): Promise<Completed> {
    const [done, following] = await Promise.all([
      this.store.statusOf(claim.id),
      next ? this.store.statusOf(next.id) : Promise.resolve(null),
    ]);
    return {
      written: done !== null && done.token === null && done.status === statusAfter[outcome.kind],
      nextClaimed: next !== null && (following?.token?.equals(next.token) ?? false),
    };
  }

  private async isMarked(tx: HandlerTransaction, id: string): Promise<boolean> {
    const rows = await tx.rows<{ status: string }>(this.store.statusSql, [id]);
    return rows[0]?.status === 'success';
  }
}

const statusAfter = { success: 'success', failed: 'failed', retry: 'pending', released: 'pending' } as const;

function refuseUnlessHeld(lease: Lease, id: string): void {
  if (!lease.isHeld())
    throw new ClaimLostError(id, 'the lease of its lane ran out before the commit; the handler was rolled back');
}

function isTransient(error: unknown): boolean {
  return error instanceof DatabaseUnavailableError || isConnectionError(error) || endsTransaction(error);
}
