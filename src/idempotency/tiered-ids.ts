import type { KnownIds } from './known-ids.js';

/** Asks a near cache first, then a far one, and keeps near what was found far. */
export class TieredIds implements KnownIds {
  constructor(
    private readonly near: KnownIds,
    private readonly far: KnownIds,
  ) {}

  async find(key: string): Promise<string | null> {
    const id = await this.near.find(key);
    if (id !== null) return id;
    const found = await this.far.find(key);
    if (found !== null) this.near.remember(key, found);
    return found;
  }

  remember(key: string, id: string): void {
    this.near.remember(key, id);
    this.far.remember(key, id);
  }

  close(): void {
    this.near.close();
    this.far.close();
  }
}
