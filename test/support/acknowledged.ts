import type { TestDatabase } from './database.js';
import type { PushAnswer } from './http-pusher.js';

/** What senders were told, to be compared with the table: each key that got a 2xx, and the id that came with it. */
export class Acknowledged {
  private readonly ids = new Map<string, Set<string>>();

  get size(): number {
    return this.ids.size;
  }

  has(key: string): boolean {
    return this.ids.has(key);
  }

  /**
   * @param keys that of the push, or one for each message of a push with many
   * @returns whether it was a 2xx
   */
  note(keys: string | readonly string[], answer: PushAnswer | null): boolean {
    if (!answer || answer.status < 200 || answer.status >= 300) return false;
    const receipts = [JSON.parse(answer.body)].flat() as { id: string }[];
    for (const [index, key] of [keys].flat().entries()) {
      this.ids.set(key, (this.ids.get(key) ?? new Set()).add(receipts[index]?.id ?? ''));
    }
    return true;
  }

  /** Keys that are not in the table exactly once, under exactly the id that their senders were told. Must be empty. */
  async wrong(database: TestDatabase): Promise<{ key: string; told: string[]; stored: string[] }[]> {
    const rows = await database.query<{ id: string; dedup_key: Buffer }>(
      'SELECT CAST(m.id AS CHAR) AS id, m.dedup_key FROM inbox_message m WHERE m.dedup_key IS NOT NULL',
    );
    const stored = new Map<string, string[]>();
    for (const { id, dedup_key } of rows) {
      const key = dedup_key.toString();
      stored.set(key, [...(stored.get(key) ?? []), id]);
    }
    return [...this.ids]
      .map(([key, told]) => ({ key, told: [...told], stored: stored.get(key) ?? [] }))
      .filter(({ told, stored: there }) => told.length !== 1 || there.length !== 1 || told[0] !== there[0]);
  }
}
