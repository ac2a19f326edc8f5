import { LRUCache } from 'lru-cache';
import type { KnownIds } from './known-ids.js';

/** The newest keys of this process: at most `most` of them, each for `ttlMs` from when it was remembered. */
export class MemoryIds implements KnownIds {
  private readonly ids: LRUCache<string, string>;

  constructor(most: number, ttlMs: number) {
    this.ids = new LRUCache({ max: most, ttl: ttlMs });
  }

  async find(key: string): Promise<string | null> {
    return this.ids.get(key) ?? null;
  }

  remember(key: string, id: string): void {
    this.ids.set(key, id);
  }

  close(): void {
    this.ids.clear();
  }
}
