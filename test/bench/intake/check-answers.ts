import type { TestDatabase } from '../../support/database.js';
import type { PushAnswer } from '../load/load-job.js';

/** What became of the pushes of one run. */
export interface AnswerCheck {
  /** Answered 2xx. */
  readonly accepted: number;
  /** Answered otherwise, or not at all. */
  readonly refused: number;
  /** 2xx and not in the table. */
  readonly lost: number;
  /** Rows beyond the first of their event. */
  readonly doubled: number;
  /** 2xx with the id of another row, or a second `duplicate: false` for the same event. */
  readonly wrong: number;
}

/** Compares every answer with the rows. `keyOf` gives the dedup key of an event. */
export async function checkAnswers(
  database: TestDatabase,
  table: string,
  answers: readonly PushAnswer[],
  keyOf: (event: number) => string,
): Promise<AnswerCheck> {
  const rows = await database.query<{ id: string; dedup_key: Buffer }>(
    `SELECT CAST(id AS CHAR) AS id, dedup_key FROM ${table}`,
  );
  const idOf = new Map(rows.map(({ id, dedup_key }) => [dedup_key.toString(), id]));
  const firsts = new Set<string>();
  const found = { accepted: 0, refused: 0, lost: 0, doubled: rows.length - idOf.size, wrong: 0 };
  for (const { event, status, body } of answers) {
    if (status < 200 || status > 299) {
      found.refused++;
      continue;
    }
    found.accepted++;
    const key = keyOf(event);
    const id = idOf.get(key);
    const receipt = JSON.parse(body) as { readonly id?: unknown; readonly duplicate?: unknown };
    if (id === undefined) found.lost++;
    else if (receipt.id !== id || (receipt.duplicate === false && firsts.has(key))) found.wrong++;
    if (receipt.duplicate === false) firsts.add(key);
  }
  return found;
}
