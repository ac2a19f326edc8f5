import type { ControlPool, Row } from './control-pool.js';

/** A changed setting holds for connections that are opened after it, so an old answer is good enough for a while. */
const freshMs = 60_000;

/** What the server takes in one packet (`max_allowed_packet`): a larger one ends the connection that sends it. */
export class PacketLimit {
  private answer: { readonly bytes: number; readonly at: number } | undefined;
  private asking: Promise<void> | undefined;

  constructor(
    private readonly pool: ControlPool,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** Bytes, as far as known; null: not asked yet, or without an answer. */
  get bytes(): number | null {
    return this.answer?.bytes ?? null;
  }

  /** Bytes, asked again when the answer is old; null when the server cannot be asked. Never rejects. */
  async ask(): Promise<number | null> {
    if (!this.answer || this.now() - this.answer.at > freshMs) {
      this.asking ??= this.read().finally(() => {
        this.asking = undefined;
      });
      await this.asking;
    }
    return this.bytes;
  }

  private async read(): Promise<void> {
    try {
      const [row] = await this.pool.rows<Row & { bytes: string }>('SELECT CAST(@@max_allowed_packet AS CHAR) AS bytes');
      const bytes = Number(row?.bytes);
      if (Number.isSafeInteger(bytes)) this.answer = { bytes, at: this.now() };
    } catch {
      // The database is away: whatever is sent meets that by itself.
    }
  }
}
