import type { BoxTable } from './box-table.js';
/** A kind of message; null stands for every source or every type. */
export interface Kind {
  readonly source: string | null;
  readonly type: string | null;
}

/** Kinds that this process leaves alone for now. Kept in memory: a restart handles them again. */
export class PausedKinds {
  private readonly kinds = new Map<string, Kind>();

  add(kind: Kind): void {
    this.kinds.set(keyOf(kind), kind);
  }

  /** Takes back what was paused with the same words, and all narrower kinds. */
  remove({ source, type }: Kind): void {
    for (const [key, paused] of this.kinds) {
      if ((source === null || paused.source === source) && (type === null || paused.type === type))
        this.kinds.delete(key);
    }
  }

  list(): readonly Kind[] {
    return [...this.kinds.values()];
  }

  has(source: string, type: string): boolean {
    return this.list().some(
      (kind) => (kind.source === null || kind.source === source) && (kind.type === null || kind.type === type),
    );
  }
}

/** A condition over alias `m` that holds for messages of none of the kinds; empty when there are none. */
export function exceptKinds(
  table: BoxTable,
  kinds: readonly Kind[],
): { readonly sql: string; readonly values: readonly string[] } {
  const values: string[] = [];
  const conditions = kinds.map(({ source, type }) => {
    const parts: string[] = [];
    for (const [column, value] of [
      [table.source, source],
      [table.type, type],
    ] as const) {
      if (value === null) continue;
      parts.push(`${column} = ?`);
      values.push(value);
    }
    return `AND NOT (${parts.length > 0 ? parts.join(' AND ') : 'TRUE'})`;
  });
  return { sql: conditions.join(' '), values };
}

function keyOf({ source, type }: Kind): string {
  return JSON.stringify([source, type]);
}
