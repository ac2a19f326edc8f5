import type { EntityOrderStore } from './entity-order.store.js';

/** Order units looked at in one query. */
const together = 50;

/**
 * Lets followers come back after their heads are finished, for many order units in one look. Nobody waits for it: what
 * is left behind when the process ends is found by the sweep.
 */
export class ComingBack {
  private readonly opens = new Set<string>();
  private turning: Promise<void> | undefined;

  constructor(
    private readonly order: EntityOrderStore,
    private readonly onReturned: () => void,
    private readonly onError: (error: unknown) => void,
  ) {}

  add(open: string): void {
    this.opens.add(open);
    this.turning ??= this.turn().finally(() => {
      this.turning = undefined;
    });
  }

  /** Resolves when all of them were looked at. */
  async idle(): Promise<void> {
    await this.turning;
  }

  private async turn(): Promise<void> {
    // Those that are finished in the same turn of the event loop go together.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.opens.size > 0) {
      const opens = [...this.opens].slice(0, together);
      for (const open of opens) this.opens.delete(open);
      try {
        if (await this.order.comeBackAll(opens)) this.onReturned();
      } catch (error) {
        this.onError(error);
      }
    }
  }
}
