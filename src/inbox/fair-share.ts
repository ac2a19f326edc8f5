/**
 * How many lanes this instance may consume at a time: its share of the lanes that the living instances divide among
 * them, ceil(lanes / living).
 *
 * A share is no right and no wall. A lane that was left alone for `patienceMs`, because whoever else counts as alive
 * does not take it, is tried beyond the share. Who has more than its share gives one back per tick, between messages:
 * the one it has had longest, so that lanes take turns.
 */
export class FairShare {
  /** Lanes in a round now, in the order in which they were taken. */
  private readonly running = new Map<number, number>();
  private readonly deniedSince = new Map<number, number>();
  private limit = Number.POSITIVE_INFINITY;
  private readonly givingBack = new Set<number>();
  private gaveBackAt = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly tickMs: number,
    private readonly patienceMs: number,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** Lanes that this instance has in a round right now. */
  get taken(): number {
    return this.running.size;
  }

  divide(lanes: number, living: number): void {
    this.limit = Math.max(1, Math.ceil(lanes / Math.max(1, living)));
  }

  /** True if a round of the lane may start; it then counts until `done`. */
  tryTake(lane: number): boolean {
    if (this.running.size >= this.limit && !this.isLeftAlone(lane)) return false;
    this.deniedSince.delete(lane);
    this.running.set(lane, this.now());
    return true;
  }

  done(lane: number): void {
    this.running.delete(lane);
    this.givingBack.delete(lane);
  }

  /** True if the lane is surplus and should be given back after the message in work. */
  shouldGiveBack(lane: number): boolean {
    if (this.givingBack.has(lane)) return true;
    if (this.running.size <= this.limit || this.now() - this.gaveBackAt < this.tickMs) return false;
    const [longest] = this.running.keys();
    if (longest !== lane) return false;
    this.gaveBackAt = this.now();
    this.givingBack.add(lane);
    return true;
  }

  private isLeftAlone(lane: number): boolean {
    const since = this.deniedSince.get(lane);
    if (since === undefined) this.deniedSince.set(lane, this.now());
    return since !== undefined && this.now() - since >= this.patienceMs;
  }
}
