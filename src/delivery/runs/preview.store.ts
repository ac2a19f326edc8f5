import type { ControlPool, Row } from '../../database/index.js';
import type { RunBox } from './run-box.js';
import { conditionOf, type Selection } from './selection.js';

/** What a selection means, counted up to a limit. */
export interface Preview {
  readonly count: number;
  /** There are more than `count`. */
  readonly more: boolean;
  readonly groups: readonly {
    readonly type: string;
    readonly errorKind: string | null;
    readonly count: number;
    /** Id of one of them. */
    readonly example: string;
  }[];
  readonly oldest: string | null;
  readonly newest: string | null;
}

interface PreviewRow extends Row {
  readonly id: string;
  readonly kind: string;
  readonly error: string | null;
  readonly received: string | null;
}

/**
 * Counts the messages that a selection means, and groups of them. Locks nothing, loads no bodies.
 * Index: the claim index for what failed, else the primary key; at most `countTo` + 1 messages are returned.
 */
export async function previewOf(
  pool: ControlPool,
  box: RunBox,
  selection: Selection,
  countTo: number,
): Promise<Preview> {
  const { sql, values, index } = conditionOf(selection, box);
  const { table, receivedAt, filters } = box;
  const rows = await pool.withConnection((connection) =>
    connection.queryRows<PreviewRow>(
      box.mapped`SELECT CAST(m.id AS CHAR) AS id, m.${box.column(filters.type ?? filters.topic ?? '')} AS kind, m.error_kind AS error,
              CAST(m.${box.column(receivedAt)} AS CHAR) AS received
         FROM ${table} m FORCE INDEX (${index}) WHERE ${sql} ORDER BY m.id LIMIT ${Math.trunc(countTo) + 1}`,
      values,
    ),
  );
  const counted = rows.slice(0, countTo);
  const received = counted.flatMap((row) => (row.received === null ? [] : [row.received])).sort();
  return {
    count: counted.length,
    more: rows.length > countTo,
    groups: groupsOf(counted),
    oldest: received[0] ?? null,
    newest: received.at(-1) ?? null,
  };
}

/** The largest first. */
function groupsOf(rows: readonly PreviewRow[]): Preview['groups'] {
  const groups = new Map<string, Preview['groups'][number]>();
  for (const { id, kind: type, error } of rows) {
    const key = `${type}\0${error ?? ''}`;
    const group = groups.get(key);
    groups.set(key, { type, errorKind: error, count: (group?.count ?? 0) + 1, example: group?.example ?? id });
  }
  return [...groups.values()].sort((a, b) => b.count - a.count);
}
