import type { Gate, GatePass } from './gate.js';
import { HeldLease } from './held-lease.js';
import type { Lease, LeaseObserver } from './lease.js';
import type { LeaseRowStore, OnTaken } from './lease-row.store.js';
import { redisCommandTimeoutMs } from './redis-client.js';

export interface LeaseTimes {
  readonly ttlMs: number;
  readonly renewMs: number;
}

/** Past the gate but without the lease yet: look whether there is work, then take the row or leave. */
export interface Entrance {
  /** Null while another instance holds the row. The entrance is used up either way. */
  take(options: {
    readonly maxHoldMs: number;
    readonly observer?: LeaseObserver;
    readonly onTaken?: OnTaken;
  }): Promise<Lease | null>;
  leave(): Promise<void>;
}

/** Two commands that time out and one second of slack must fit between the abort and the end of the lease. */
const fullMarginMs = 2 * redisCommandTimeoutMs + 1_000;

/** Hands out leases of one owner: the gate first, then the row, which decides. */
export class LeaseKeeper {
  private held: readonly HeldLease[] = [];

  constructor(
    private readonly gate: Gate,
    private readonly rows: LeaseRowStore,
    readonly owner: string,
    private readonly times: LeaseTimes,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** Null while another instance is in, or while the gate cannot be asked. Never throws for either. */
  async enter(name: string): Promise<Entrance | null> {
    const since = this.now();
    const pass = await this.gate.enter(name, this.times.ttlMs);
    if (pass === null) return null;
    return {
      take: (options) => this.take(name, since, pass, options),
      leave: () => pass.leave(),
    };
  }

  /** Leases that this process has now. */
  get heldCount(): number {
    this.held = this.held.filter((lease) => lease.isHeld());
    return this.held.length;
  }

  isAvailable(): boolean {
    return this.gate.isAvailable();
  }

  /** Whether leases can be had: asks with a write. Never rejects. */
  probe(): Promise<boolean> {
    return this.gate.probe();
  }

  close(): Promise<void> {
    return this.gate.close();
  }

  private async take(
    name: string,
    since: number,
    pass: GatePass,
    options: Parameters<Entrance['take']>[0],
  ): Promise<Lease | null> {
    let fence: string | null = null;
    try {
      fence = await this.rows.take(name, this.owner, this.times.ttlMs, options.onTaken);
    } finally {
      if (fence === null) await pass.leave();
    }
    if (fence === null) return null;
    const { ttlMs, renewMs } = this.times;
    const lease = new HeldLease(
      {
        name,
        owner: this.owner,
        fence,
        ttlMs,
        renewMs,
        // Short leases, as tests use them, cannot spare the full margin.
        marginMs: Math.min(fullMarginMs, ttlMs / 3),
        maxHoldMs: options.maxHoldMs,
        since,
        now: this.now,
      },
      this.rows,
      pass,
      options.observer ?? {},
    );
    this.held = [...this.held.filter((other) => other.isHeld()), lease];
    return lease;
  }
}
