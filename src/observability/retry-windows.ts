/** Which parts of an application try again for how long: retention must not forget a message sooner. */
export class RetryWindows {
  private readonly windows = new Map<'inbox' | 'outbox' | 'receiving', number>();

  /** receiving: how long after its first arrival the outbox may still send a message again. */
  note(part: 'inbox' | 'outbox' | 'receiving', ms: number): void {
    this.windows.set(part, Math.max(ms, this.windows.get(part) ?? 0));
  }

  /** 0: no such part is in this application. */
  of(part: 'inbox' | 'outbox' | 'receiving'): number {
    return this.windows.get(part) ?? 0;
  }
}
