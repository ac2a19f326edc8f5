/**
 * Lets attempts of one process run beside each other, except for a suspect, which runs alone: if the process ends
 * again, it is known what ended it. Waiting suspects go before new attempts, so they cannot starve.
 */
export class Solitude {
  private running = 0;
  private alone = false;
  private readonly waiting: { readonly alone: boolean; readonly start: () => void }[] = [];

  /** Resolves with the function that gives the place back; call it once. */
  async enter(alone: boolean): Promise<() => void> {
    if (!this.mayStart(alone)) {
      await new Promise<void>((start) => {
        if (alone) this.waiting.unshift({ alone, start });
        else this.waiting.push({ alone, start });
      });
    } else {
      this.occupy(alone);
    }
    return this.leaver();
  }

  /** A place beside others if there is one right now; null while a suspect runs or waits. */
  tryEnter(): (() => void) | null {
    if (!this.mayStart(false)) return null;
    this.occupy(false);
    return this.leaver();
  }

  private mayStart(alone: boolean): boolean {
    if (this.alone) return false;
    if (alone) return this.running === 0;
    return !this.waiting.some((waiter) => waiter.alone);
  }

  private occupy(alone: boolean): void {
    this.running++;
    this.alone = alone;
  }

  private leaver(): () => void {
    let left = false;
    return () => {
      if (left) return;
      left = true;
      this.leave();
    };
  }

  private leave(): void {
    this.running--;
    if (this.running === 0) this.alone = false;
    for (;;) {
      const next = this.waiting[0];
      if (!next || this.alone || (next.alone && this.running > 0)) return;
      this.waiting.shift();
      this.occupy(next.alone);
      next.start();
    }
  }
}
