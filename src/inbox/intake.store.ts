import type { EntityManager } from 'typeorm';
import {
  type ControlConnection,
  type ControlPool,
  isDuplicateKey,
  type Row,
  type StatementResult,
  saysCommitted,
} from '../database/index.js';
import { DatabaseUnavailableError } from '../errors/database-unavailable.error.js';
import type { MessageDraft } from './message-draft.js';

/** Where a message ended up: its own row, or the row of its first copy. */
export interface Stored {
  readonly id: string;
  readonly duplicate: boolean;
}

type Send = (sql: string, values: readonly unknown[]) => Promise<StatementResult>;
type Select = (sql: string, values: readonly unknown[]) => Promise<readonly { id: string }[]>;

const dedupIndex = 'inbox_dedup';

/** The statements of intake. The unique key (source, dedup_key) decides what a duplicate is. */
export class IntakeStore {
  private readonly insertSql: string;

  constructor(
    private readonly pool: ControlPool,
    private readonly table: string,
  ) {
    this.insertSql = `INSERT INTO ${table}
      (source, type, dedup_key, entity_key, open_entity, lane, sequence, headers, content_type, body,
       status, attempts, next_attempt_at, received_at, updated_at)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'pending', 0, UTC_TIMESTAMP(3), UTC_TIMESTAMP(3), UTC_TIMESTAMP(3))`;
  }

  /**
   * Stores one message in a transaction of its own; committed when this resolves.
   * Locks: the new row and, for a moment, its place in the unique key.
   */
  async storeOne(draft: MessageDraft): Promise<Stored> {
    return this.pool.withConnection(async (connection) => {
      const send: Send = async (sql, values) => {
        const result = await connection.execute(sql, values);
        // A connection that somebody handed back with an open transaction would swallow an acknowledged row.
        if (saysCommitted(result)) return result;
        connection.destroy();
        throw new DatabaseUnavailableError('the row was not committed by its statement');
      };
      return this.insert(draft, send, (sql, values) => connection.rows<Row & { id: string }>(sql, values));
    });
  }

  /** Stores the messages of one push in one transaction, all or nothing, in the order of the push. */
  async storeAll(drafts: readonly MessageDraft[]): Promise<Stored[]> {
    return this.pool.transaction((tx) => this.insertAll(drafts, tx));
  }

  /** Stores within the caller's transaction: the messages appear when, and only if, that commits. */
  async storeWith(manager: EntityManager, drafts: readonly MessageDraft[]): Promise<Stored[]> {
    const stored: Stored[] = [];
    for (const draft of drafts) {
      stored.push(
        await this.insert(
          draft,
          async (sql, values) => (await manager.query(sql, [...values])) as StatementResult,
          async (sql, values) => (await manager.query(sql, [...values])) as { id: string }[],
        ),
      );
    }
    return stored;
  }

  private async insertAll(drafts: readonly MessageDraft[], tx: ControlConnection): Promise<Stored[]> {
    const stored: Stored[] = [];
    for (const draft of drafts) {
      const send: Send = (sql, values) => tx.execute(sql, values);
      stored.push(await this.insert(draft, send, (sql, values) => tx.rows<Row & { id: string }>(sql, values)));
    }
    return stored;
  }

  private async insert(draft: MessageDraft, send: Send, select: Select): Promise<Stored> {
    for (let attempt = 1; ; attempt++) {
      try {
        const result = await send(this.insertSql, valuesOf(draft));
        return { id: String(result.insertId), duplicate: false };
      } catch (error) {
        if (draft.dedupKey === null || !isDuplicateKey(error, dedupIndex)) throw error;
        // FOR UPDATE reads the newest version whatever the isolation level of a caller's transaction is.
        const [first] = await select(
          `SELECT CAST(id AS CHAR) AS id FROM ${this.table} WHERE source = ? AND dedup_key = ? FOR UPDATE`,
          [draft.source, draft.dedupKey],
        );
        if (first) return { id: first.id, duplicate: true };
        // The first copy was purged or rolled back in between: this one is the first now.
        if (attempt === 3) throw error;
      }
    }
  }
}

function valuesOf(draft: MessageDraft): readonly unknown[] {
  const { source, type, dedupKey, entityKey, open, lane, sequence, headers, contentType, body } = draft;
  return [source, type, dedupKey, entityKey, open, lane, sequence, headers, contentType, body];
}
