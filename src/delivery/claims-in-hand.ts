import type { Claim } from './claim.js';
import type { ClaimStore } from './claim.store.js';
import { LazyAbort } from './lazy-abort.js';

/** One claimed message while this process has it. */
export interface HeldClaim extends Claim {
  /** By the local clock: false before others may take the message. */
  isHeld(): boolean;
  /** Aborted when the claim was lost or ran out. */
  readonly lost: LazyAbort;
}

interface Entry extends HeldClaim {
  heldUntil: number;
}

/** The claim counts as over a tenth of its length early, so that nobody else has the message while we think that we do. */
const margin = 0.1;

/**
 * The claims of this process. They are extended every third of their length; one that turns out to be somebody else's,
 * or that could not be extended in time, is aborted.
 */
export class ClaimsInHand {
  private readonly entries = new Map<string, Entry>();
  private timer: NodeJS.Timeout | undefined;
  private beating: Promise<void> | undefined;

  constructor(
    private readonly store: ClaimStore,
    private readonly claimMs: number,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** @param claimedAt local time before the claim was sent: the database's clock started later */
  add(id: string, token: Buffer, claimedAt: number): HeldClaim {
    const lost = new LazyAbort();
    const { now } = this;
    const entry: Entry = {
      id,
      token,
      lost,
      heldUntil: claimedAt + this.claimMs * (1 - margin),
      isHeld: () => !lost.aborted && now() < entry.heldUntil,
    };
    this.entries.set(id, entry);
    this.arm();
    return entry;
  }

  /** One that was dropped is extended again: its messages are handled once more under the same claim. */
  keep(claim: HeldClaim): void {
    if (!claim.lost.aborted) this.entries.set(claim.id, claim as Entry);
    this.arm();
  }

  /** No heartbeat of it is sent any more: its outcome is about to be written, or was. */
  drop(id: string): void {
    this.entries.delete(id);
    if (this.entries.size === 0) this.disarm();
  }

  /** Resolves when no heartbeat is under way. */
  async close(): Promise<void> {
    this.entries.clear();
    this.disarm();
    await this.beating;
  }

  private arm(): void {
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      this.beating = this.beat().finally(() => {
        this.beating = undefined;
        if (this.entries.size > 0) this.arm();
      });
    }, this.claimMs / 3);
  }

  private disarm(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
  }

  /** Never rejects: while the database is away, the claims run out by the local clock. */
  private async beat(): Promise<void> {
    const sentAt = this.now();
    for (const claims of byToken([...this.entries.values()])) {
      const [first] = claims;
      if (!first) continue;
      const ids = claims.map(({ id }) => id);
      try {
        const extended = await this.store.extend(first.token, ids, this.claimMs);
        const ours = extended === ids.length ? null : await this.store.stillOurs(first.token, ids);
        for (const claim of claims) {
          if (!ours || ours.has(claim.id)) claim.heldUntil = sentAt + this.claimMs * (1 - margin);
          else if (this.entries.get(claim.id) === claim) claim.lost.abort(new Error('the claim was taken over'));
        }
      } catch {
        for (const claim of claims) if (!claim.isHeld()) claim.lost.abort(new Error('the claim ran out'));
      }
    }
  }
}

/** Claims made together share a token, and one statement. */
export function byToken<T extends Claim>(claims: readonly T[]): T[][] {
  const groups = new Map<string, T[]>();
  for (const claim of claims) {
    const key = claim.token.toString('latin1');
    const group = groups.get(key);
    if (group) group.push(claim);
    else groups.set(key, [claim]);
  }
  return [...groups.values()];
}
