export type Answer<T> =
  | { readonly state: 'ok'; readonly value: T }
  | { readonly state: 'failed'; readonly error: unknown }
  /** Still waited for, for this long. `last` is the answer before, if any. */
  | { readonly state: 'late'; readonly sinceMs: number; readonly last: Settled<T> | null };

type Settled<T> = Exclude<Answer<T>, { state: 'late' }>;

/**
 * A question that is asked once at a time, however many want to know: who asks while it is open gets that answer, so
 * nothing piles up behind a server that does not answer. Owns no timer beyond a call.
 */
export class CachedAnswer<T> {
  private last: { readonly settled: Settled<T>; readonly at: number } | null = null;
  private pending: { readonly since: number; readonly done: Promise<void> } | null = null;

  constructor(
    private readonly ask: () => Promise<T>,
    /** For how long an answer is as good as a new one. */
    private readonly keepMs: number,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** The answer, after `waitMs` at most. Never rejects. */
  async get(waitMs: number): Promise<Answer<T>> {
    const isFresh = this.last !== null && this.now() - this.last.at < this.keepMs;
    if (this.last && isFresh) return this.last.settled;
    this.pending ??= { since: this.now(), done: this.start() };
    const { since, done } = this.pending;
    await atMost(done, waitMs);
    if (this.pending) return { state: 'late', sinceMs: this.now() - since, last: this.last?.settled ?? null };
    return this.last?.settled ?? { state: 'failed', error: new Error('no answer') };
  }

  private async start(): Promise<void> {
    const settled = await settle(this.ask);
    this.last = { settled, at: this.now() };
    this.pending = null;
  }
}

async function settle<T>(ask: () => Promise<T>): Promise<Settled<T>> {
  try {
    // A turn later, so that `pending` is set before an answer can come.
    await Promise.resolve();
    return { state: 'ok', value: await ask() };
  } catch (error) {
    return { state: 'failed', error };
  }
}

async function atMost(done: Promise<void>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  try {
    await Promise.race([done, late]);
  } finally {
    clearTimeout(timer);
  }
}
