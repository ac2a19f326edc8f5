import type { Lease } from '../lease/index.js';
import type { BatchHold } from './batch-hold.js';
import type { Member } from './batch-member.js';
import type { LaneContext } from './lane-parts.js';
import type { LaneQueue } from './lane-queue.js';
import type { Completion } from './outcome-columns.js';
import type { Completed, Send } from './outcome-writer.js';

/** The messages of a lane are this process's while it has the lane's lease. */
export class LaneBatchHold implements BatchHold {
  constructor(
    private readonly round: LaneContext,
    private readonly lease: Lease,
    private readonly queue: LaneQueue,
    private readonly interrupted: AbortSignal,
  ) {}

  isHeld(): boolean {
    return this.lease.isHeld();
  }

  interruptions(): readonly AbortSignal[] {
    return [this.interrupted];
  }

  keep(members: readonly Member[]): void {
    for (const { claim } of members) this.round.running.set(claim.id, claim);
  }

  letGo(members: readonly Member[]): void {
    for (const { claim } of members) this.round.running.delete(claim.id);
  }

  /** Joined with the fence of the lane. */
  async succeed(send: Send, members: readonly Member[]): Promise<number> {
    const [first] = members;
    if (!first) return 0;
    return this.round.parts.batches.succeed(send, this.lease, idsOf(members), first.claim.token);
  }

  async giveBack(members: readonly Member[], delayMs: number): Promise<boolean> {
    const [first] = members;
    if (!first) return true;
    return this.round.parts.batches.giveBack(this.lease, idsOf(members), first.claim.token, delayMs);
  }

  write(_member: Member, completion: Completion): Promise<Completed> {
    return this.round.parts.completion.write(this.lease, completion, null);
  }

  settle(_member: Member, success: Completion, failure: Completion): Promise<Completed> {
    return this.round.parts.completion.settle(this.lease, success, failure);
  }

  async remember(send: Send, members: readonly Member[]): Promise<void> {
    const positions = members.flatMap(({ candidate }) => this.queue.turns.positionOf(candidate) ?? []);
    await this.round.parts.order.reorder?.remember(send, positions);
  }

  async closed({ candidate }: Member): Promise<void> {
    await this.queue.close(candidate);
  }

  isLate({ candidate }: Member): boolean {
    return this.queue.turns.positionOf(candidate)?.late ?? false;
  }
}

function idsOf(members: readonly Member[]): string[] {
  return members.map(({ candidate }) => candidate.id);
}
