import type { GatePass } from './gate.js';
import type { Lease, LeaseLoss, LeaseObserver } from './lease.js';
import type { LeaseRowStore } from './lease-row.store.js';

export interface HeldLeaseOptions {
  readonly name: string;
  readonly owner: string;
  readonly fence: string;
  readonly ttlMs: number;
  readonly renewMs: number;
  /** How long before its end the lease counts as lost here. */
  readonly marginMs: number;
  /** Renewal stops after this long in all, so that a holder that never ends cannot keep the lane. */
  readonly maxHoldMs: number;
  /** Monotonic milliseconds taken before the first request of the acquisition was sent. */
  readonly since: number;
  readonly now: () => number;
}

/**
 * A held lease with its watchdog: it renews every `renewMs` (the gate first, then the row) and aborts the signal before
 * the lease can run out. A renewal that fails is tried again; only the deadline, a foreign holder or the hold limit end it.
 */
export class HeldLease implements Lease {
  readonly name: string;
  readonly owner: string;
  readonly fence: string;
  private readonly abort = new AbortController();
  private readonly holdLimit: number;
  private deadline: number;
  private renewing: Promise<void> | undefined;
  private renewTimer: NodeJS.Timeout | undefined;
  private deadlineTimer: NodeJS.Timeout | undefined;
  private released = false;

  constructor(
    private readonly options: HeldLeaseOptions,
    private readonly rows: LeaseRowStore,
    private readonly pass: GatePass,
    private readonly observer: LeaseObserver,
  ) {
    this.name = options.name;
    this.owner = options.owner;
    this.fence = options.fence;
    this.holdLimit = options.since + options.maxHoldMs;
    this.deadline = this.deadlineFrom(options.since);
    this.armDeadline();
    this.armRenewal();
  }

  get signal(): AbortSignal {
    return this.abort.signal;
  }

  isHeld(): boolean {
    if (this.abort.signal.aborted || this.released) return false;
    if (this.options.now() < this.deadline) return true;
    this.lose(this.deadline >= this.holdLimit ? 'hold-limit' : 'expired');
    return false;
  }

  async release(): Promise<void> {
    if (this.released) return;
    this.released = true;
    this.stop();
    await this.renewing;
    try {
      await this.rows.release(this.name, this.owner, this.fence);
    } catch {
      // The row runs out by itself.
    }
    await this.pass.leave();
  }

  private deadlineFrom(since: number): number {
    return Math.min(since + this.options.ttlMs - this.options.marginMs, this.holdLimit);
  }

  private armDeadline(): void {
    clearTimeout(this.deadlineTimer);
    const leftMs = Math.max(0, this.deadline - this.options.now());
    this.deadlineTimer = setTimeout(() => {
      // A timer may fire a fraction of a millisecond early.
      if (this.isHeld()) this.armDeadline();
    }, Math.ceil(leftMs));
  }

  private armRenewal(): void {
    this.renewTimer = setTimeout(() => {
      this.renewing = this.renew().finally(() => {
        this.renewing = undefined;
        if (!this.abort.signal.aborted && !this.released) this.armRenewal();
      });
    }, this.options.renewMs);
  }

  /** Never rejects: losing a lease is normal. */
  private async renew(): Promise<void> {
    const since = this.options.now();
    try {
      const gate = await this.pass.renew(this.options.ttlMs);
      if (gate === 'lost') return this.lose('taken');
      if (gate === 'unavailable') return this.observer.renewalFailed?.(this, new Error('the gate did not answer'));
      if (!(await this.rows.renew(this.name, this.owner, this.fence, this.options.ttlMs))) return this.lose('taken');
      this.deadline = this.deadlineFrom(since);
      if (!this.isHeld()) return;
      this.armDeadline();
      await this.observer.renewed?.(this, this.options.now() - since);
    } catch (error) {
      this.observer.renewalFailed?.(this, error);
    }
  }

  private lose(reason: LeaseLoss): void {
    if (this.abort.signal.aborted || this.released) return;
    this.stop();
    this.abort.abort();
    this.observer.lost?.(this, reason);
  }

  private stop(): void {
    clearTimeout(this.renewTimer);
    clearTimeout(this.deadlineTimer);
  }
}
