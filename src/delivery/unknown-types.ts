import type { Crowds } from './crowds.js';
import type { PutOffStore } from './put-off.store.js';

interface Meeting {
  readonly at: number;
  /** How often these messages fell due and found no handler here. */
  readonly rounds: number;
}

/** Too short: the same rows are rewritten all the time. Too long: a newly deployed handler finds its messages late. */
const firstDelayMs = 30_000;
const longestDelayMs = 120_000;
/** Meetings closer than this are about the same due time. */
const sameRoundMs = firstDelayMs / 2;
const remembered = 1_000;
export const unknownReason = 'no handler in this instance';

/**
 * Messages whose type has no handler here. A newer instance may have one: so when they fall due nothing is changed at
 * first and the lane is yielded. If they are still there afterwards, nobody took them, and they are put off.
 */
export class UnknownTypes {
  private readonly meetings = new Map<string, Meeting>();

  constructor(
    private readonly store: PutOffStore,
    private readonly crowds: Crowds,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** Returns how many messages were put off; 0 when the lane should be yielded first. */
  async meet(lane: number, source: string, type: string): Promise<number> {
    const key = `${lane}\0${source}\0${type}`;
    const last = this.meetings.get(key);
    const at = this.now();
    const again = last !== undefined && at - last.at < sameRoundMs;
    const rounds = (last?.rounds ?? 0) + (again ? 0 : 1);
    if (this.meetings.size >= remembered) this.meetings.clear();
    this.meetings.set(key, { at, rounds });
    if (!again) return 0;
    const delayMs = Math.min(longestDelayMs, firstDelayMs * 2 ** (rounds - 1));
    const putOff = (limit?: number) => this.store.putOff(lane, source, type, delayMs, { limit });
    const count = await putOff();
    this.crowds.followType({ lane, source, type, reason: unknownReason }, count, putOff);
    return count;
  }
}
