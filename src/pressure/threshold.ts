/** Opens again below this share of the limit. Nearer to 1: it flutters. Smaller: senders are held off for longer than needed. */
const reopenShare = 0.8;

/** Closed from its limit on, open again well below it, so that it does not flutter at the limit. */
export class Threshold {
  private closed = false;

  constructor(readonly limit: number) {}

  get isClosed(): boolean {
    return this.closed;
  }

  /** True when this value closed or opened it. */
  update(value: number): boolean {
    const closed = this.closed ? value >= this.limit * reopenShare : value >= this.limit;
    if (closed === this.closed) return false;
    this.closed = closed;
    return true;
  }
}
