import type { BatchHold } from './batch-hold.js';
import type { Member } from './batch-member.js';
import type { ClaimStore } from './claim.store.js';
import { claimAuthority } from './claim-authority.js';
import type { ClaimsInHand, HeldClaim } from './claims-in-hand.js';
import type { InHand } from './competing-parts.js';
import type { Interruption } from './lazy-abort.js';
import type { Completion } from './outcome-columns.js';
import type { Authority, Completed, OutcomeWriter, Send } from './outcome-writer.js';

/** Messages that a competing consumer has claimed: each is this process's while its claim lives. */
export class CompetingBatchHold implements BatchHold {
  /** Ids of messages that ended, and hold back nobody any more. */
  readonly ended: string[] = [];
  private readonly claims: ReadonlyMap<string, HeldClaim>;

  constructor(
    private readonly parts: { readonly store: ClaimStore; readonly writer: OutcomeWriter },
    private readonly hand: ClaimsInHand,
    job: readonly InHand[],
    private readonly deadline: AbortSignal,
  ) {
    this.claims = new Map(job.map(({ claim }) => [claim.id, claim]));
  }

  isHeld(members: readonly Member[]): boolean {
    return this.of(members).every((claim) => claim.isHeld());
  }

  interruptions(members: readonly Member[]): readonly Interruption[] {
    return [this.deadline, ...this.of(members).map(({ lost }) => lost)];
  }

  keep(members: readonly Member[]): void {
    for (const claim of this.of(members)) this.hand.keep(claim);
  }

  letGo(members: readonly Member[]): void {
    for (const { claim } of members) this.hand.drop(claim.id);
  }

  async succeed(send: Send, members: readonly Member[]): Promise<number> {
    const [first] = members;
    if (!first) return 0;
    return this.parts.store.succeed(first.claim.token, idsOf(members), send);
  }

  async giveBack(members: readonly Member[], delayMs: number): Promise<boolean> {
    const [first] = members;
    if (!first) return true;
    return (await this.parts.store.release(first.claim.token, idsOf(members), delayMs)) === members.length;
  }

  async write(member: Member, completion: Completion): Promise<Completed> {
    const authority = this.authorityOf(member);
    return authority ? this.parts.writer.write(authority, completion, null) : notOurs;
  }

  async settle(member: Member, success: Completion, failure: Completion): Promise<Completed> {
    const authority = this.authorityOf(member);
    return authority ? this.parts.writer.settleDoubt(authority, success, null, failure) : notOurs;
  }

  /** Nothing: without order there is no place to remember. */
  async remember(): Promise<void> {}

  async closed({ candidate }: Member): Promise<void> {
    this.ended.push(candidate.id);
  }

  isLate(): boolean {
    return false;
  }

  private authorityOf({ claim }: Member): Authority | null {
    const held = this.claims.get(claim.id);
    return held ? claimAuthority(this.parts.store, held) : null;
  }

  private of(members: readonly Member[]): HeldClaim[] {
    return members.flatMap(({ claim }) => this.claims.get(claim.id) ?? []);
  }
}

const notOurs: Completed = { written: false, nextClaimed: false };

function idsOf(members: readonly Member[]): string[] {
  return members.map(({ candidate }) => candidate.id);
}
