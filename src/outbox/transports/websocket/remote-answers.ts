import { combined, type PushResult } from './push-result.js';

interface Pending {
  readonly results: PushResult[];
  readonly timer: NodeJS.Timeout;
  /** How many answers come; null: not known yet. */
  expected: number | null;
  settle(result: PushResult): void;
}

/** Pushes that other instances have not answered yet. Each settles: with an acknowledgement, the last answer, or the time. */
export class RemoteAnswers {
  private readonly pending = new Map<string, Pending>();
  private last = 0;

  constructor(private readonly answerMs: number) {}

  expect(): { readonly id: string; readonly answered: Promise<PushResult> } {
    const id = String(++this.last);
    const answered = new Promise<PushResult>((resolve) => {
      const timer = setTimeout(() => this.end(id, 'unanswered'), this.answerMs);
      this.pending.set(id, { results: [], timer, expected: null, settle: resolve });
    });
    return { id, answered };
  }

  /** So many instances got it. */
  count(id: string, expected: number): void {
    const entry = this.pending.get(id);
    if (!entry) return;
    entry.expected = expected;
    this.look(id, entry);
  }

  add(id: string, result: PushResult): void {
    const entry = this.pending.get(id);
    if (!entry) return;
    entry.results.push(result);
    this.look(id, entry);
  }

  /** It is not known whether anybody got it. */
  giveUp(id: string): void {
    this.end(id, 'unknown');
  }

  close(): void {
    for (const id of [...this.pending.keys()]) this.giveUp(id);
  }

  private look(id: string, { results, expected }: Pending): void {
    const isOver = results.includes('acked') || (expected !== null && results.length >= expected);
    if (isOver) this.end(id, combined(results));
  }

  private end(id: string, result: PushResult): void {
    const entry = this.pending.get(id);
    if (!entry) return;
    this.pending.delete(id);
    clearTimeout(entry.timer);
    entry.settle(result);
  }
}
