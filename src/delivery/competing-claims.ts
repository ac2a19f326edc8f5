import type { ControlConnection } from '../database/index.js';
import { BatchShares } from './batch-shares.js';
import { type Candidate, claimant, type DueMessage, isSuspect } from './candidate.js';
import type { BatchRequest, Choice } from './claim.store.js';
import { newClaimToken } from './claim-token.js';
import type { ClaimsInHand } from './claims-in-hand.js';
import type { CompetingOptions, CompetingParts, InHand } from './competing-parts.js';
import type { ClosedOff, LaneHandler, Permit } from './lane-handler.js';
import { unknownReason } from './unknown-types.js';

/** What one look at a lane brought. */
export interface ClaimedBatch {
  readonly taken: readonly InHand[];
  /** Nothing more can be claimed in the lane for now. */
  readonly exhausted: boolean;
  /** A message that may have ended its process is next: it is claimed when nothing else is in hand. */
  readonly needsQuiet: boolean;
  /** Milliseconds until messages at a limit may go on; null: none are. */
  readonly resumeInMs: number | null;
  /** Due time of the first message that was read; null: there was none. */
  readonly from: string | null;
}

interface Pick {
  readonly candidate: Candidate;
  readonly handler: LaneHandler;
  readonly permit: Permit;
}

/** What was found while choosing. Made anew when the transaction is run again. */
interface Findings {
  readonly picks: Pick[];
  /** By kind: messages that cannot be handled now, and why. */
  readonly aside: Map<string, { readonly messages: DueMessage[]; readonly why: ClosedOff | 'unknown' }>;
  /** By order unit: messages that wait for another one. */
  readonly followers: Map<string, DueMessage[]>;
  /** Claimed for the same call of a batch handler. */
  readonly shares: BatchShares;
  needsQuiet: boolean;
}

/** Claims messages in batches, beside other instances that do the same. */
export class CompetingClaims {
  constructor(
    private readonly parts: CompetingParts,
    private readonly options: CompetingOptions,
    private readonly hand: ClaimsInHand,
  ) {}

  /**
   * @param quiet nothing is in hand, so a suspect may be claimed, alone
   * @param isOurs a message that is in hand and not settled: its follower may be claimed, to be done after it
   */
  async claim(lane: number, from: string, quiet: boolean, isOurs: (id: string) => boolean): Promise<ClaimedBatch> {
    const { batchSize: limit, claimMs } = this.options;
    const request: BatchRequest = {
      lane,
      limit,
      from,
      except: this.parts.box.paused(),
      crowds: this.parts.crowds.list(),
      token: newClaimToken(),
      claimMs,
    };
    let found = this.nothingFound();
    const sentAt = performance.now();
    let read: readonly DueMessage[];
    try {
      read = await this.parts.store.claimBatch(request, async (due, tx) => {
        giveBack(found);
        found = await this.choose(due, tx, quiet, isOurs);
        return this.choiceOf(found);
      });
    } catch (error) {
      giveBack(found);
      // The commit may have been carried out all the same.
      const ids = found.picks.map(({ candidate }) => candidate.id);
      if (ids.length > 0) await this.parts.store.release(request.token, ids).catch(() => undefined);
      throw error;
    }
    const taken = found.picks.map((pick) => ({
      ...pick,
      claim: this.hand.add(pick.candidate.id, request.token, sentAt),
      attempt: Number(pick.candidate.attempts) + 1,
    }));
    const full = read.length === limit;
    const moved = await this.clear(lane, found, full);
    return {
      taken,
      exhausted: !found.needsQuiet && (!full || (taken.length === 0 && !moved.any)),
      needsQuiet: found.needsQuiet,
      resumeInMs: earliest(moved.resumeInMs, this.parts.box.resumeInMs(lane)),
      from: read[0]?.due ?? null,
    };
  }

  private nothingFound(): Findings {
    const shares = new BatchShares(this.parts.oneByOne);
    return { picks: [], aside: new Map(), followers: new Map(), shares, needsQuiet: false };
  }

  private choiceOf({ picks }: Findings): Choice {
    const alone = picks.length === 1 && picks[0] !== undefined && isSuspect(picks[0].candidate);
    return { ids: picks.map(({ candidate }) => candidate.id), claimant: claimant(this.parts.owner, alone) };
  }

  private async choose(
    due: readonly DueMessage[],
    tx: ControlConnection,
    quiet: boolean,
    isOurs: (id: string) => boolean,
  ): Promise<Findings> {
    const found = this.nothingFound();
    const places = await this.parts.neighbours?.find(due, this.options.batchSize + 2, tx);
    const picked = new Set<string>();
    /** Picked to be done after one that is in hand already. */
    const behindHand = new Set<string>();
    for (const message of headsFirst(due, places)) {
      const kind = this.parts.box.kindOf(message);
      const known = found.aside.get(kind);
      if (known) {
        known.messages.push(message);
        continue;
      }
      const readiness = found.shares.readiness(kind, message, () => this.parts.box.readiness(message));
      if (readiness.kind === 'unknown') found.aside.set(kind, { messages: [message], why: 'unknown' });
      else if (readiness.kind === 'closed-off') found.aside.set(kind, { messages: [message], why: readiness });
      if (readiness.kind !== 'ready') continue;
      const { previous = null, next_status = null } = places?.get(message.id) ?? {};
      const isPicked = previous !== null && picked.has(previous);
      const isBehindHand = previous !== null && (behindHand.has(previous) || (!isPicked && isOurs(previous)));
      const isInTurn = previous === null || isPicked || (isBehindHand && !isSequenced(message));
      if (message.open !== null && previous !== null && (!isInTurn || (isBehindHand && isSequenced(message)))) {
        const unit = found.followers.get(message.open) ?? [];
        unit.push(message);
        found.followers.set(message.open, unit);
        continue;
      }
      const candidate: Candidate = { ...message, previous, next_status };
      if (isSuspect(candidate)) {
        if (found.picks.length > 0) break;
        found.needsQuiet = !quiet;
        if (quiet) found.picks.push({ candidate, handler: readiness.handler, permit: readiness.permit() });
        break;
      }
      picked.add(message.id);
      if (isBehindHand) behindHand.add(message.id);
      found.picks.push({ candidate, handler: readiness.handler, permit: readiness.permit() });
    }
    return found;
  }

  /** Moves out of the way what cannot be handled now. `full`: there is more behind it. */
  private async clear(
    lane: number,
    { aside, followers }: Findings,
    full: boolean,
  ): Promise<{ readonly any: boolean; readonly resumeInMs: number | null }> {
    const { order, crowds, events, box } = this.parts;
    let any = false;
    let resumeInMs: number | null = null;
    for (const [open, messages] of followers) {
      const ids = messages.map(({ id }) => id);
      if (messages.some(isSequenced)) {
        await order.stepAsideThese(open, ids);
        any = true;
        continue;
      }
      const from = ids.reduce((one, other) => (BigInt(other) < BigInt(one) ? other : one));
      const step = await order.stepAside(open, from);
      crowds.followUnit(open, from, step);
      if (step.moved > 0) any = true;
    }
    for (const { messages, why } of aside.values()) {
      if (why !== 'unknown' && why.pace && !full) {
        resumeInMs = earliest(resumeInMs, why.retryInMs);
        continue;
      }
      const count = await box.putOff(lane, messages, why);
      const [first] = messages;
      if (count === 0 || !first) continue;
      any = true;
      const reason = why === 'unknown' ? unknownReason : why.reason;
      events.emit({ name: 'put-off', source: first.source, type: first.type, count, reason });
    }
    return { any, resumeInMs };
  }
}

/** In the order in which they are due, but for a message that goes before another one of its order unit. */
function headsFirst(
  due: readonly DueMessage[],
  places: ReadonlyMap<string, { readonly previous: string | null }> | undefined,
): readonly DueMessage[] {
  if (!places) return due;
  const left = new Map(due.map((message) => [message.id, message]));
  const ordered: DueMessage[] = [];
  for (const message of due) {
    const chain: DueMessage[] = [];
    for (let at = left.get(message.id); at; at = left.get(places.get(at.id)?.previous ?? '')) {
      left.delete(at.id);
      chain.push(at);
    }
    ordered.push(...chain.reverse());
  }
  return ordered;
}

/** Waits in the table rather than in hand: one with a smaller sequence may still come. */
function isSequenced({ sequence }: DueMessage): boolean {
  return sequence !== null && sequence !== undefined;
}

function giveBack({ picks }: Findings): void {
  for (const { permit } of picks) permit.giveBack();
}

function earliest(one: number | null, other: number | null): number | null {
  if (one === null || other === null) return one ?? other;
  return Math.min(one, other);
}
