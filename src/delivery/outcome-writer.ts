import { endsTransaction, isConnectionError, type StatementResult } from '../database/index.js';
import { ClaimLostError } from '../errors/claim-lost.error.js';
import { DatabaseUnavailableError } from '../errors/database-unavailable.error.js';
import type { Outcome } from '../message/outcome.js';
import type { StatusWords } from './box-table.js';
import type { Claim, ClaimRequest } from './claim.js';
import type { HandlerTransaction } from './handler-transaction.js';
import type { Completion } from './outcome-columns.js';
import { statusAfter } from './outcome-columns.js';
import { pause } from './pause.js';

/** Sends one statement: through the handler's transaction, or by itself through the control pool. */
export type Send = (sql: string, values: readonly unknown[]) => Promise<StatementResult>;

/** What entitles this process to write the outcome of a message: the lease of a lane, or the claim alone. */
export interface Authority {
  /** By the local clock, so that it can be asked right before a COMMIT. */
  isHeld(): boolean;
  /** Aborted when it is lost. */
  readonly signal: AbortSignal;
  /** Writes the outcome if the authority and the claim still stand; the number of rows that changed, the next included. */
  complete(send: Send, completion: Completion, next: ClaimRequest | null): Promise<number>;
}

/** The reads that settle a doubt. */
export interface OutcomeRows {
  readonly sendAlone: Send;
  /** The status of one message, for use inside a handler's transaction. */
  readonly statusSql: string;
  statusOf(id: string): Promise<{ readonly status: string; readonly token: Buffer | null } | null>;
}

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
 * Writes outcomes so that each is true: a success stands if and only if the handler's writes do, and never for an owner
 * that was replaced.
 */
export class OutcomeWriter {
  constructor(
    private readonly rows: OutcomeRows,
    private readonly words: StatusWords,
  ) {}

  /**
   * Marks the success of a message inside the handler's transaction, claims the next one with it, and commits.
   * @param onFailure the outcome to write if the COMMIT turns out not to have been carried out
   * @throws ClaimLostError when the lane or the claim is not ours any more: the transaction was rolled back
   * @throws any database error of the mark: the transaction was rolled back
   */
  async commitSuccess(
    authority: Authority,
    tx: HandlerTransaction,
    completion: Completion,
    next: ClaimRequest | null,
    onFailure: (error: unknown) => Completion,
  ): Promise<Completed> {
    const { claim } = completion;
    await tx.assertInTransaction();
    refuseUnlessHeld(authority, claim);
    const changed = await authority.complete(tx.sendPrepared, completion, next);
    const written = changed === (next ? 2 : 1) || (changed === 1 && (await this.isMarked(tx, claim.id)));
    if (!written) throw new ClaimLostError(claim.id, 'it was taken over; the handler was rolled back');
    refuseUnlessHeld(authority, claim);
    try {
      // The next message's handler most likely writes too.
      await tx.commit(changed === 2);
    } catch (error) {
      return this.settleDoubt(authority, completion, next, onFailure(error));
    }
    return { written: true, nextClaimed: changed === 2 };
  }

  /**
   * Writes an outcome by itself: a failure, a release, or the success of a handler that wrote nothing through its
   * manager. Database trouble is waited out while the authority lasts.
   */
  async write(authority: Authority, completion: Completion, next: ClaimRequest | null): Promise<Completed> {
    for (let attempt = 1; ; attempt++) {
      if (!authority.isHeld()) return nothing;
      try {
        const changed = await authority.complete(this.rows.sendAlone, completion, next);
        if (changed === (next ? 2 : 1)) return { written: true, nextClaimed: next !== null };
        return await this.readBack(completion, next);
      } catch (error) {
        if (!isTransient(error)) throw error;
        await pause(Math.min(1_000, 50 * 2 ** attempt), authority.signal);
      }
    }
  }

  /**
   * A COMMIT that was rejected may have been carried out all the same. The failure is written with the claim's token,
   * which waits for a commit that is still under way: if that changes a row, the commit was not carried out; if it
   * changes none, the rows say what happened.
   */
  async settleDoubt(
    authority: Authority,
    success: Completion,
    next: ClaimRequest | null,
    failure: Completion,
  ): Promise<Completed> {
    for (let attempt = 1; authority.isHeld(); attempt++) {
      try {
        const changed = await authority.complete(this.rows.sendAlone, failure, null);
        if (changed === 1) return { ...nothing, instead: failure.outcome };
        return await this.readBack(success, next);
      } catch (error) {
        if (!isTransient(error)) throw error;
        await pause(Math.min(1_000, 50 * 2 ** attempt), authority.signal);
      }
    }
    return nothing;
  }

  /** After a statement of unknown or partial effect: what do the rows say? */
  private async readBack({ claim, outcome }: Completion, next: ClaimRequest | null): Promise<Completed> {
    const [done, following] = await Promise.all([
      this.rows.statusOf(claim.id),
      next ? this.rows.statusOf(next.id) : Promise.resolve(null),
    ]);
    return {
      written: done !== null && done.token === null && done.status === statusAfter(this.words, outcome),
      nextClaimed: next !== null && (following?.token?.equals(next.token) ?? false),
    };
  }

  private async isMarked(tx: HandlerTransaction, id: string): Promise<boolean> {
    const rows = await tx.rows<{ status: string }>(this.rows.statusSql, [id]);
    return rows[0]?.status === this.words.done;
  }
}

function refuseUnlessHeld(authority: Authority, { id }: Claim): void {
  if (!authority.isHeld())
    throw new ClaimLostError(id, 'its time ran out before the commit; the handler was rolled back');
}

/** Trouble with the database that may pass: the same statement can be sent again. */
export function isTransient(error: unknown): boolean {
  return error instanceof DatabaseUnavailableError || isConnectionError(error) || endsTransaction(error);
}
