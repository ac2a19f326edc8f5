const slotMs = 5_000;
const slots = 12;

/** Successes and failures of the last minute, in slots of five seconds. */
export class LastMinute {
  private readonly ring = new Map<number, { good: number; bad: number }>();

  constructor(private readonly now: () => number = () => performance.now()) {}

  add(kind: 'good' | 'bad'): void {
    const slot = this.slot();
    const counted = this.ring.get(slot) ?? { good: 0, bad: 0 };
    counted[kind]++;
    this.ring.set(slot, counted);
    this.forget(slot);
  }

  counts(): { readonly good: number; readonly bad: number } {
    this.forget(this.slot());
    const all = [...this.ring.values()];
    return { good: all.reduce((sum, { good }) => sum + good, 0), bad: all.reduce((sum, { bad }) => sum + bad, 0) };
  }

  private slot(): number {
    return Math.floor(this.now() / slotMs);
  }

  private forget(newest: number): void {
    for (const slot of this.ring.keys()) if (slot <= newest - slots) this.ring.delete(slot);
  }
}
