import type { KnownIds } from './known-ids.js';

/** A client whose commands reject when they take longer than the deadline, and at once while it is offline. */
export interface RedisCommands {
  readonly status: string;
  get(key: string): Promise<string | null>;
  set(key: string, value: string, unit: 'PX', ms: number): Promise<unknown>;
  disconnect(): void;
}

/** So many failures in a row, and Redis is left alone for a while: each would cost a push the deadline. */
const mostFailures = 3;
const restMs = 1_000;
/** Writes on their way; while there are more, what is stored is not remembered. */
const mostWrites = 1_000;

/** What all instances know. Whatever Redis does, a look-up ends by its deadline with an id or with "not known". */
export class RedisIds implements KnownIds {
  private failures = 0;
  private restUntil = Number.NEGATIVE_INFINITY;
  private writes = 0;

  /** @param prefix of the keys, such as `<namespace>:known:` */
  constructor(
    private readonly redis: RedisCommands,
    private readonly prefix: string,
    private readonly ttlMs: number,
    private readonly now: () => number = () => performance.now(),
  ) {}

  async find(key: string): Promise<string | null> {
    const id = await this.ask(() => this.redis.get(this.prefix + key));
    // Whatever else may be under the key is not an answer.
    return typeof id === 'string' && /^\d{1,20}$/.test(id) ? id : null;
  }

  remember(key: string, id: string): void {
    if (this.writes >= mostWrites) return;
    this.writes++;
    void this.ask(() => this.redis.set(this.prefix + key, id, 'PX', this.ttlMs)).then(() => {
      this.writes--;
    });
  }

  close(): void {
    this.redis.disconnect();
  }

  /** Null when there is no answer. Never rejects. */
  private async ask<T>(command: () => Promise<T>): Promise<T | null> {
    if (this.redis.status !== 'ready' || this.now() < this.restUntil) return null;
    // One may try after the rest; the others go on without it until that has an answer.
    if (this.failures >= mostFailures) this.restUntil = this.now() + restMs;
    try {
      const answer = await command();
      this.failures = 0;
      this.restUntil = Number.NEGATIVE_INFINITY;
      return answer;
    } catch {
      this.failures++;
      if (this.failures >= mostFailures) this.restUntil = this.now() + restMs;
      return null;
    }
  }
}
