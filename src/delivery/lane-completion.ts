import type { Lease } from '../lease/index.js';
import type { StatusWords } from './box-table.js';
import type { HandlerTransaction } from './handler-transaction.js';
import type { ClaimRequest, LaneStore } from './lane.store.js';
import type { Completion } from './outcome-columns.js';
import { type Authority, type Completed, OutcomeWriter } from './outcome-writer.js';

export type { Completed };

/** Outcomes of a lane that is consumed in order: what entitles to them is the lane's lease. See `OutcomeWriter`. */
export class LaneCompletion {
  private readonly writer: OutcomeWriter;

  constructor(
    private readonly store: LaneStore,
    words: StatusWords,
  ) {
    this.writer = new OutcomeWriter(store, words);
  }

  commitSuccess(
    lease: Lease,
    tx: HandlerTransaction,
    completion: Completion,
    next: ClaimRequest | null,
    onFailure: (error: unknown) => Completion,
  ): Promise<Completed> {
    return this.writer.commitSuccess(this.authority(lease), tx, completion, next, onFailure);
  }

  write(lease: Lease, completion: Completion, next: ClaimRequest | null): Promise<Completed> {
    return this.writer.write(this.authority(lease), completion, next);
  }

  /** After a COMMIT that was rejected: which of the two outcomes stands. */
  settle(lease: Lease, success: Completion, failure: Completion): Promise<Completed> {
    return this.writer.settleDoubt(this.authority(lease), success, null, failure);
  }

  private authority(lease: Lease): Authority {
    return {
      isHeld: () => lease.isHeld(),
      signal: lease.signal,
      complete: (send, completion, next) => this.store.complete(send, lease, completion, next),
    };
  }
}
