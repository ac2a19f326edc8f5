import type { Lease } from '../lease/index.js';
import type { Batch, Member } from './batch-member.js';
import { mostBytes } from './batch-rules.js';
import { type Candidate, claimant, isSuspect } from './candidate.js';
import { newClaimToken } from './claim-token.js';
import type { LaneContext } from './lane-parts.js';
import type { LaneQueue } from './lane-queue.js';
import { pause } from './pause.js';

/** How often a batch that is not full looks for more. */
const lookAgainMs = 50;

/** Brings the messages of a batch together: consecutive ones of one kind in a lane, claimed under one token. */
export class BatchCollector {
  constructor(
    private readonly round: LaneContext,
    private readonly lease: Lease,
    private readonly queue: LaneQueue,
    private readonly interrupted: AbortSignal,
  ) {}

  /**
   * Claims the first message and what follows it, until the batch is full, nothing of its kind is next, or `maxWait` has
   * passed. What is claimed is extended with the lease from then on.
   */
  async collect(first: Candidate, batch: Batch, size: number, stopping: () => boolean): Promise<Member[]> {
    const { rules } = batch;
    const token = newClaimToken();
    const giveUpAt = performance.now() + rules.maxWaitMs;
    const members: Member[] = [];
    for (let next: Candidate | null = first; ; ) {
      const chunk: Member[] = [];
      while (next && members.length + chunk.length < size) {
        chunk.push(await memberOf(next, token, batch));
        if (members.length + chunk.length === size) break;
        const taken = [...members, ...chunk];
        next = await this.queue.nextOfKind(first, taken, (other) => fits(other, taken, batch));
      }
      members.push(...(await this.claim(chunk, size)));
      if (members.length >= size || members.length === 0 || stopping()) return members;
      const more = await this.queue.refillOfKind(first, members, (other) => fits(other, members, batch));
      if (more === 'other') return members;
      if (more === null) {
        if (performance.now() >= giveUpAt) return members;
        await pause(Math.min(lookAgainMs, Math.max(1, giveUpAt - performance.now())), this.interrupted);
        if (this.interrupted.aborted) return members;
        this.queue.rewind();
      }
      next = more;
    }
  }

  private async claim(chunk: readonly Member[], size: number): Promise<readonly Member[]> {
    const [first] = chunk;
    if (!first) return [];
    const { parts, options, running } = this.round;
    // Only what ran alone in its process can be blamed for the end of it.
    const alone = isSuspect(first.candidate) || (size === 1 && options.isOnlyLane());
    const { token } = first.claim;
    const ids = chunk.map(({ candidate }) => candidate.id);
    const ours = await parts.batches.claim(this.lease, ids, { token, claimant: claimant(parts.keeper.owner, alone) });
    for (const id of ours) running.set(id, { id, token });
    return chunk.filter(({ candidate }) => ours.has(candidate.id));
  }
}

async function memberOf(candidate: Candidate, token: Buffer, { rules }: Batch): Promise<Member> {
  return {
    candidate,
    claim: { id: candidate.id, token },
    attempt: Number(candidate.attempts) + 1,
    group: await rules.groupOf(candidate),
  };
}

/**
 * A suspect runs alone. A message whose entity has an older one in another group stays out: groups are not done in the
 * order of the lane.
 */
async function fits(candidate: Candidate, members: readonly Member[], { rules }: Batch): Promise<boolean> {
  if (isSuspect(candidate)) return false;
  const bytes = members.reduce((sum, member) => sum + rules.bytesOf(member.candidate), rules.bytesOf(candidate));
  if (bytes > mostBytes) return false;
  if (candidate.open === null) return true;
  const older = members.find((member) => member.candidate.open === candidate.open);
  return older === undefined || older.group === (await rules.groupOf(candidate));
}
