import type { EntityManager } from 'typeorm';
import {
  type ControlConnection,
  type ControlPool,
  isDuplicateKey,
  type Row,
  type StatementResult,
  saysCommitted,
} from '../database/index.js';
import type { BoxTable } from '../delivery/index.js';
import { DatabaseUnavailableError } from '../errors/database-unavailable.error.js';
import type { MessageDraft } from './message-draft.js';

/** Where a message ended up: its own row, or the row of its first copy. */
export interface Stored {
  readonly id: string;
  readonly duplicate: boolean;
}

const dedupIndex = 'inbox_dedup';
const columns = [
  ...[
    'source',
    'type',
    'dedup_key',
    'entity_key',
    'open_entity',
    'lane',
    'sequence',
    'headers',
    'content_type',
    'body',
  ],
  ...['status', 'attempts', 'next_attempt_at', 'received_at', 'updated_at'],
];
const constants = `'pending', 0, UTC_TIMESTAMP(3) + INTERVAL ? MICROSECOND, UTC_TIMESTAMP(3), UTC_TIMESTAMP(3)`;
const row = `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ${constants})`;
/**
 * A row for a connection of the application, whose charset and sql_mode are not ours: text goes as bytes, so that it
 * needs no escaping and no conversion by the connection.
 */
const foreignRow = `(CONVERT(? USING utf8mb4), CONVERT(? USING utf8mb4), ?, ?, ?, ?, ?, CONVERT(? USING utf8mb4),
   CONVERT(? USING utf8mb4), ?, ${constants})`;

/** True when the unique key (source, dedup_key) refused a row. */
export function isCopy(error: unknown): boolean {
  return isDuplicateKey(error, dedupIndex);
}

/** The same text for two drafts if and only if the second is a copy of the first; null: never a copy. */
export function identityOf({ source, dedupKey }: Pick<MessageDraft, 'source' | 'dedupKey'>): string | null {
  return dedupKey === null ? null : `${source} ${dedupKey.toString('latin1')}`;
}

/** The statements of intake. The unique key (source, dedup_key) decides what a duplicate is. */
export class IntakeStore {
  private readonly columns: string;
  private readonly inserts = new Map<number, string>();
  /** Whether the ids of one INSERT follow each other, by session: each may be set otherwise. */
  private readonly consecutive = new WeakMap<object, boolean>();

  constructor(
    private readonly pool: ControlPool,
    private readonly table: Pick<BoxTable, 'name' | 'id' | 'column' | 'mapped'>,
  ) {
    this.columns = columns.map(table.column).join(', ');
  }

  /** Lends a connection of the control pool. */
  withConnection<T>(work: (connection: ControlConnection) => Promise<T>): Promise<T> {
    return this.pool.withConnection(work);
  }

  /** Runs `work` in one transaction of the control pool; again, a few times, after a deadlock. */
  transaction<T>(work: (connection: ControlConnection) => Promise<T>): Promise<T> {
    return this.pool.transaction(work);
  }

  /**
   * Stores rows in one statement, all or none, and returns their ids in the order of the rows.
   * Locks: the new rows and, until the statement ends, their places in the unique key.
   * @throws the server's 1062 (see `isCopy`) when a row, its key, is there already
   */
  async insert(connection: ControlConnection, drafts: readonly MessageDraft[]): Promise<string[]> {
    if (drafts.length > 1 && !(await this.idsAreConsecutive(connection))) return this.insertEach(connection, drafts);
    return idsFrom(await connection.execute(this.insertSql(drafts.length), drafts.flatMap(valuesOf)), drafts.length);
  }

  /** As `insert`, by itself: the rows are committed when this resolves. */
  async insertCommitted(connection: ControlConnection, drafts: readonly MessageDraft[]): Promise<string[]> {
    if (drafts.length > 1 && !(await this.idsAreConsecutive(connection))) {
      await connection.begin();
      try {
        const ids = await this.insertEach(connection, drafts);
        await connection.commit();
        return ids;
      } catch (error) {
        await connection.rollback();
        throw error;
      }
    }
    const result = await connection.execute(this.insertSql(drafts.length), drafts.flatMap(valuesOf));
    // A connection that somebody handed back with an open transaction would swallow acknowledged rows.
    if (!saysCommitted(result)) {
      connection.destroy();
      throw new DatabaseUnavailableError('the rows were not committed by their statement');
    }
    return idsFrom(result, drafts.length);
  }

  /**
   * Ids of the first copies that are stored already, by identity. Reads the unique key only.
   * `lock` waits for whoever is writing them, and reads the newest version whatever the isolation level is.
   */
  async firstCopies(
    connection: ControlConnection,
    drafts: readonly MessageDraft[],
    lock: '' | 'FOR UPDATE' | 'FOR UPDATE NOWAIT' = '',
  ): Promise<Map<string, string>> {
    const bySource = new Map<string, Buffer[]>();
    for (const { source, dedupKey } of drafts) {
      if (dedupKey === null) continue;
      const keys = bySource.get(source);
      if (keys) keys.push(dedupKey);
      else bySource.set(source, [dedupKey]);
    }
    if (bySource.size === 0) return new Map();
    const found = await connection.queryRows<Row & { id: string; source: string; dedup_key: Buffer }>(
      this.table.mapped`SELECT CAST(m.${this.table.id} AS CHAR) AS id, m.source AS source, m.dedup_key AS dedup_key
         FROM ${this.table.name} m FORCE INDEX (${dedupIndex})
        WHERE ${[...bySource].map(() => this.table.mapped`(m.source = ? AND m.dedup_key IN (?))`).join(' OR ')} ${lock}`,
      [...bySource].flat(),
    );
    return new Map(
      found.map(({ id, source, dedup_key }) => [identityOf({ source, dedupKey: dedup_key }) as string, id]),
    );
  }

  /** Stores within the caller's transaction: the messages appear when, and only if, that commits. */
  async storeWith(manager: EntityManager, drafts: readonly MessageDraft[]): Promise<Stored[]> {
    const stored: Stored[] = [];
    for (const draft of drafts) stored.push(await this.storeOneWith(manager, draft));
    return stored;
  }

  private async storeOneWith(manager: EntityManager, draft: MessageDraft): Promise<Stored> {
    for (let attempt = 1; ; attempt++) {
      try {
        const result: StatementResult = await manager.query(
          `INSERT INTO ${this.table.name} (${this.columns}) VALUES ${foreignRow}`,
          valuesOf(draft).map((value) => (typeof value === 'string' ? Buffer.from(value) : value)),
        );
        return { id: String(result.insertId), duplicate: false };
      } catch (error) {
        if (draft.dedupKey === null || !isCopy(error)) throw error;
        // FOR UPDATE reads the newest version whatever the isolation level of the caller's transaction is.
        const [first]: { id: string }[] = await manager.query(
          this.table.mapped`SELECT CAST(m.${this.table.id} AS CHAR) AS id FROM ${this.table.name} m
            WHERE m.source = ? AND m.dedup_key = ? FOR UPDATE`,
          [Buffer.from(draft.source), draft.dedupKey],
        );
        if (first) return { id: first.id, duplicate: true };
        // The first copy was purged or rolled back in between: this one is the first now.
        if (attempt === 3) throw error;
      }
    }
  }

  private async insertEach(connection: ControlConnection, drafts: readonly MessageDraft[]): Promise<string[]> {
    const ids: string[] = [];
    for (const draft of drafts) {
      ids.push(...idsFrom(await connection.execute(this.insertSql(1), valuesOf(draft)), 1));
    }
    return ids;
  }

  /**
   * InnoDB takes the ids of an INSERT with a known number of rows in one go. They step by auto_increment_increment; a
   * Galera cluster changes that while it runs, so there ids are not calculated.
   */
  private async idsAreConsecutive(connection: ControlConnection): Promise<boolean> {
    const known = this.consecutive.get(connection.session);
    if (known !== undefined) return known;
    const rows = await connection.queryRows<Row & { Variable_name: string; Value: string }>(
      "SHOW SESSION VARIABLES WHERE Variable_name IN ('auto_increment_increment', 'wsrep_on', 'innodb_autoinc_lock_mode')",
    );
    const value = (name: string) => rows.find(({ Variable_name }) => Variable_name === name)?.Value;
    const answer =
      value('auto_increment_increment') === '1' &&
      value('wsrep_on') !== 'ON' &&
      ['0', '1', '2'].includes(value('innodb_autoinc_lock_mode') ?? '');
    this.consecutive.set(connection.session, answer);
    return answer;
  }

  private insertSql(rows: number): string {
    const known = this.inserts.get(rows);
    if (known !== undefined) return known;
    const sql = `INSERT INTO ${this.table.name} (${this.columns}) VALUES ${Array<string>(rows).fill(row).join(', ')}`;
    this.inserts.set(rows, sql);
    return sql;
  }
}

/** insertId is the id of the first row of a statement. */
function idsFrom({ insertId }: StatementResult, count: number): string[] {
  if (count === 1) return [String(insertId)];
  const first = BigInt(insertId);
  return Array.from({ length: count }, (_, index) => String(first + BigInt(index)));
}

function valuesOf(draft: MessageDraft): readonly unknown[] {
  const { source, type, dedupKey, entityKey, open, lane, sequence, headers, contentType, body, delayMs } = draft;
  return [source, type, dedupKey, entityKey, open, lane, sequence, headers, contentType, body, delayMs * 1000];
}
