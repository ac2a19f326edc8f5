import type { ControlPool, Row } from '../database/index.js';
import type { BoxTable } from './box-table.js';

/** Where a message stands among the unfinished messages of its entity. */
export interface Neighbours {
  /** The next older one; null: it is the oldest. */
  readonly previous: string | null;
  /** Status of the next younger one; null: it is the youngest. */
  readonly next_status: string | null;
}

interface OpenRow extends Row {
  readonly open: string;
  readonly id: string;
  readonly status: string;
  readonly sequence: string | null;
}

/** Statements of a few fixed sizes are prepared once each; a shorter list is filled up with its last entity. */
const sizes = [1, 2, 5, 10, 25, 50];
/** The same for how many messages of each entity are looked up. */
const depths = [3, 5, 12];

/**
 * Looks the entities of a batch up in the open index: the first messages of each, oldest first.
 *
 * One look per entity with constants, since a subquery that depends on the outer row walks all the entity's messages on
 * both servers: with 20,000 followers that took 3 s for a batch of 50.
 */
export class NeighbourLookup {
  private readonly statements = new Map<number, string>();

  constructor(
    private readonly pool: ControlPool,
    private readonly table: BoxTable,
  ) {}

  /**
   * For every message that has an entity. A message that is behind more older ones than were looked up is told the last of
   * them: never one that is among `messages` or closes before it, since it is behind at least two that are not.
   * @param most `messages` are fewer than this
   * @param from the connection to read through, inside a transaction
   */
  async find(
    messages: readonly { readonly id: string; readonly open: string | null }[],
    most: number,
    from: Pick<ControlPool, 'rows'> = this.pool,
  ): Promise<Map<string, Neighbours>> {
    const depth = this.depthFor(messages, most);
    const entities = [...new Set(messages.flatMap(({ open }) => (open === null ? [] : [open])))];
    const chains = new Map<string, OpenRow[]>();
    for (let start = 0; start < entities.length; start += 50) {
      for (const row of await this.look(entities.slice(start, start + 50), depth, from)) {
        const chain = chains.get(row.open) ?? [];
        chain.push(row);
        chains.set(row.open, chain);
      }
    }
    const found = new Map<string, Neighbours>();
    for (const { id, open } of messages) {
      if (open !== null) found.set(id, placeIn(inSequence(chains.get(open) ?? [], this.table), id));
    }
    return found;
  }

  /** Few entities have more than one message in a batch, and then the rows of all their others would be read for nothing. */
  private depthFor(messages: readonly { readonly open: string | null }[], most: number): number {
    // By sequence the order is not that of the ids, so the next one may be anywhere among them.
    if (this.table.sequence !== null) return most;
    const times = new Map<string, number>();
    for (const { open } of messages) if (open !== null) times.set(open, (times.get(open) ?? 0) + 1);
    const needed = Math.max(0, ...times.values()) + 2;
    return Math.min(most, depths.find((depth) => depth >= needed) ?? most);
  }

  /** The oldest unfinished message of each entity that has one. At most 50 entities. */
  heads(entities: readonly string[]): Promise<readonly OpenRow[]> {
    return this.look(entities, 1, this.pool);
  }

  private async look(entities: readonly string[], depth: number, from: Pick<ControlPool, 'rows'>): Promise<OpenRow[]> {
    const size = sizes.find((one) => one >= entities.length) ?? 50;
    const padded = Array.from({ length: size }, (_, index) => entities[index] ?? entities.at(-1));
    const rows = await from.rows<OpenRow>(this.statement(size, depth), padded);
    // The filling repeats the rows of the last entity.
    const seen = new Set<string>();
    return rows.filter(({ id }) => !seen.has(id) && seen.add(id));
  }

  private statement(size: number, depth: number): string {
    const key = size * 1_000_000 + depth;
    const known = this.statements.get(key);
    if (known !== undefined) return known;
    const { name, id, open, openIndex, sequence } = this.table;
    const position = sequence ? `CAST(m.${sequence} AS CHAR)` : 'NULL';
    const one = this.table
      .mapped`(SELECT CAST(m.${open} AS CHAR) AS open, CAST(m.${id} AS CHAR) AS id, m.status AS status, ${position} AS sequence
        FROM ${name} m FORCE INDEX (${openIndex}) WHERE m.${open} = ? ORDER BY m.${id} LIMIT ${Math.trunc(depth)})`;
    const statement = Array.from({ length: size }, () => one).join(' UNION ALL ');
    this.statements.set(key, statement);
    return statement;
  }
}

/** In the order in which they go: what is in work, then by sequence, then by id. Given in the order of ids. */
export function inSequence<T extends { readonly status: string; readonly sequence: string | null }>(
  chain: readonly T[],
  { sequence, words }: BoxTable,
): readonly T[] {
  if (sequence === null || chain.every((row) => row.sequence === null)) return chain;
  const rank = (row: T) => (row.status === words.working ? 0 : row.sequence === null ? 1 : 2);
  return chain.toSorted((one, other) => {
    if (rank(one) !== rank(other) || one.sequence === null || other.sequence === null) return rank(one) - rank(other);
    const [a, b] = [BigInt(one.sequence), BigInt(other.sequence)];
    return a < b ? -1 : a > b ? 1 : 0;
  });
}

function placeIn(chain: readonly OpenRow[], id: string): Neighbours {
  const at = chain.findIndex((row) => row.id === id);
  // Not among the first: it is behind all of them.
  if (at < 0) return { previous: chain.at(-1)?.id ?? null, next_status: null };
  return { previous: chain[at - 1]?.id ?? null, next_status: chain[at + 1]?.status ?? null };
}
