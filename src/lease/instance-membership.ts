import type { ControlPool, Row } from '../database/index.js';

/** Instances that gave no sign for this many lease times are forgotten by whoever looks next. */
const forgetAfterTtls = 20;

/**
 * Who is alive: one row per instance in `mailroom_instance`, by the database's clock. Only the sharing of lanes rests on
 * it; a wrong count makes lanes unevenly spread, never wrongly consumed.
 */
export class InstanceMembership {
  constructor(
    private readonly pool: ControlPool,
    private readonly id: string,
    /** An instance that gave no sign for this long does not count. */
    private readonly ttlMs: number,
  ) {}

  /** Gives a sign of life and returns how many instances are alive, this one included. */
  async beat(): Promise<number> {
    await this.pool.execute(
      'INSERT INTO mailroom_instance (id, seen_at) VALUES (?, UTC_TIMESTAMP(3)) ON DUPLICATE KEY UPDATE seen_at = UTC_TIMESTAMP(3)',
      [this.id],
    );
    const micros = this.ttlMs * 1000;
    const [row] = await this.pool.rows<Row & { living: string; gone: string }>(
      `SELECT CAST(COALESCE(SUM(seen_at > UTC_TIMESTAMP(3) - INTERVAL ? MICROSECOND), 0) AS CHAR) AS living,
              CAST(COALESCE(SUM(seen_at < UTC_TIMESTAMP(3) - INTERVAL ? MICROSECOND), 0) AS CHAR) AS gone
         FROM mailroom_instance`,
      [micros, micros * forgetAfterTtls],
    );
    if (Number(row?.gone ?? 0) > 0) await this.forget(micros * forgetAfterTtls);
    return Math.max(1, Number(row?.living ?? 1));
  }

  /** This instance stops: its share is free for the others at once. Never throws. */
  async leave(): Promise<void> {
    try {
      await this.pool.execute('DELETE FROM mailroom_instance WHERE id = ?', [this.id]);
    } catch {
      // It stops counting after its time.
    }
  }

  private async forget(micros: number): Promise<void> {
    await this.pool.execute(
      'DELETE FROM mailroom_instance WHERE seen_at < UTC_TIMESTAMP(3) - INTERVAL ? MICROSECOND ORDER BY id LIMIT 100',
      [micros],
    );
  }
}
