import type { ControlPool, Row } from '../database/index.js';
import type { BoxTable } from '../delivery/index.js';

/** Failed messages that one call lets go at most; each entity has one or a few. */
const mostHeads = 500;

/** Lets the followers of failed messages go on, after a person decided. */
export class EntityReleaseStore {
  constructor(
    private readonly pool: ControlPool,
    private readonly table: BoxTable,
  ) {}

  /**
   * The failed messages of an entity hold it back no longer; returns how many there were.
   * Locks: those messages by primary key, in order. Index: the entity index to find them. Prevents: touching one that was
   * replayed meanwhile (status).
   */
  async release(open: string, source: string, entityKey: Buffer): Promise<number> {
    const { name, id, open: column, openIndex } = this.table;
    const heads = await this.pool.rows<Row & { id: string }>(
      this.table.mapped`SELECT CAST(m.${id} AS CHAR) AS id FROM ${name} m FORCE INDEX (${openIndex})
        WHERE m.${column} = ? AND m.status = 'failed' AND m.source = ? AND m.entity_key = ?
        ORDER BY m.${id} LIMIT ${mostHeads}`,
      [open, source, entityKey],
    );
    if (heads.length === 0) return 0;
    const result = await this.pool.execute(
      this.table.mapped`UPDATE ${name} m FORCE INDEX (PRIMARY) SET m.${column} = NULL, m.updated_at = UTC_TIMESTAMP(3)
        WHERE m.${id} IN (${heads.map(() => '?').join(', ')}) AND m.status = 'failed' ORDER BY m.${id}`,
      heads.map((head) => head.id),
    );
    return result.affectedRows;
  }
}
