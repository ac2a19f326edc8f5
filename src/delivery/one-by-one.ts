/** Kinds that are remembered; far more than have failing batches at the same time. */
const mostKinds = 1_000;

/**
 * How many messages of a kind are still to be tried one by one after a call for many of them failed. A limit or an open
 * breaker can cut that short; without this memory the next batch would fail as a whole again, and the guilty message
 * would never be met alone. Kept in memory: after a restart the batch fails once more.
 */
export class OneByOne {
  private readonly left = new Map<string, number>();

  /** `count` messages that are next in their lane are still to be tried. */
  expect(lane: number, { source, type }: { source: string; type: string }, count: number): void {
    if (count <= 0) return;
    if (this.left.size >= mostKinds) this.left.clear();
    this.left.set(keyOf(lane, source, type), count);
  }

  /** True if the next message is to be tried alone; counts it. */
  take(lane: number, { source, type }: { source: string; type: string }): boolean {
    const key = keyOf(lane, source, type);
    const count = this.left.get(key);
    if (count === undefined) return false;
    if (count > 1) this.left.set(key, count - 1);
    else this.left.delete(key);
    return true;
  }
}

function keyOf(lane: number, source: string, type: string): string {
  return `${lane}\0${source}\0${type}`;
}
