import type { ControlConnection } from '../database/index.js';
import { DatabaseUnavailableError } from '../errors/database-unavailable.error.js';
import { type IntakeStore, identityOf, type Stored } from './intake.store.js';
import { IntakeWriter } from './intake-writer.js';
import type { MessageDraft } from './message-draft.js';
import { statementBytes } from './packet-check.js';

/** Batches on their way at the same time: while one is flushed to the disk, the next is filled and sent. */
const mostInFlight = 2;
/** A batch never waits for a bigger one, so this bounds only the size of a statement. */
const mostBytes = 1_048_576;
/**
 * Rows of a statement. Only these, largest first, so that a server keeps few prepared statements: it has 16,382 places for
 * those of all its clients. What does not fit goes with the next batch.
 */
const batchRows = [200, 128, 96, 64, 48, 40, 32, 28, 24, 20, 16, 14, 12, 10, 8, 7, 6, 5, 4, 3, 2, 1];

/** A caller's place. Given back in time, nothing is stored for it. */
export class Ticket {
  private given = false;

  /** The caller has its answer: what was not sent to the database yet is not sent any more. */
  withdraw(): void {
    this.given = true;
  }

  get withdrawn(): boolean {
    return this.given;
  }
}

interface Waiting {
  readonly draft: MessageDraft;
  readonly identity: string | null;
  readonly ticket: Ticket;
  readonly since: number;
  readonly resolve: (stored: Stored) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Group commit: messages that arrive while a batch is on its way share the next one. An idle queue sends at the end of the turn.
 * Bounded by `intake.maxInFlight`, since each place belongs to a push in work.
 */
export class IntakeQueue {
  private waiting: Waiting[] = [];
  private inFlight = 0;
  private pumpIsDue = false;
  /** The last batch left messages behind that were too many or too large for it. */
  private overflows = false;
  /** Keys on their way. Their copies wait for the answer instead of waiting for a row lock in a batch with others. */
  private readonly keysInFlight = new Set<string>();
  private readonly writer: IntakeWriter;

  /** @param packetLimit what the server takes in one packet; null: not known */
  constructor(
    private readonly rows: IntakeStore,
    private readonly packetLimit: () => number | null = () => null,
  ) {
    this.writer = new IntakeWriter(rows);
  }

  /**
   * Stores one message; committed when this resolves.
   * @throws DatabaseUnavailableError when it was withdrawn, or when it is not known whether it was stored
   */
  store(draft: MessageDraft, ticket: Ticket): Promise<Stored> {
    return new Promise((resolve, reject) => {
      const since = performance.now();
      this.waiting.push({ draft, identity: identityOf(draft), ticket, since, resolve, reject });
      this.pumpAfterTurn();
    });
  }

  /**
   * How long the first in line has been waiting to be sent, to the time of a batch; 0 when nobody waits. A copy that waits
   * for the answer of its first does not count: others pass it.
   */
  longestWaitMs(): number {
    for (const { identity, since } of this.waiting) {
      if (identity === null || !this.keysInFlight.has(identity)) return performance.now() - since;
    }
    return 0;
  }

  /** Pushes that came in the same turn of the event loop go together. Waiting for that turn to end costs nobody time. */
  private pumpAfterTurn(): void {
    if (this.pumpIsDue) return;
    this.pumpIsDue = true;
    setImmediate(() => {
      this.pumpIsDue = false;
      this.pump();
    });
  }

  private pump(): void {
    if (this.inFlight >= mostInFlight || this.waiting.length === 0) return;
    this.inFlight++;
    void this.flush().then((sent) => {
      this.inFlight--;
      // Nothing was ready: what waits for a batch on its way goes when that ends. Trying again would spin.
      if (sent) this.pump();
    });
  }

  /** False when nothing was ready. Never rejects. */
  private async flush(): Promise<boolean> {
    let batch: readonly Waiting[] | undefined;
    try {
      await this.rows.withConnection(async (connection) => {
        // Filled only now: whoever came while a connection was opened goes along, whoever gave up does not.
        batch = this.fill();
        if (batch.length === 0) return;
        const sending = this.send(connection, batch);
        // One statement did not hold them all, and nobody else may come who would send the rest.
        if (this.overflows) this.pump();
        await sending;
      });
    } catch (error) {
      // No connection: those behind would wait for the same failure.
      for (const { reject } of batch ?? this.waiting.splice(0)) reject(error);
    }
    return batch === undefined || batch.length > 0;
  }

  private async send(connection: ControlConnection, batch: readonly Waiting[]): Promise<void> {
    const keys = batch.flatMap(({ identity }) => (identity === null ? [] : [identity]));
    for (const key of keys) this.keysInFlight.add(key);
    try {
      const written = await this.writer.write(
        connection,
        batch.map(({ draft }) => draft),
      );
      for (const [index, result] of written.entries()) {
        const { resolve, reject } = batch[index] as Waiting;
        if ('stored' in result) resolve(result.stored);
        else reject(result.error);
      }
    } finally {
      for (const key of keys) this.keysInFlight.delete(key);
    }
  }

  private fill(): Waiting[] {
    const ready: Waiting[] = [];
    const later: Waiting[] = [];
    let bytes = 0;
    this.overflows = false;
    const most = statementBytes(mostBytes, this.packetLimit());
    for (const one of this.waiting) {
      if (one.ticket.withdrawn) {
        one.reject(new DatabaseUnavailableError('withdrawn'));
        continue;
      }
      const size = one.draft.body.length + (one.draft.headers?.length ?? 0);
      const fits = ready.length < 200 && (ready.length === 0 || bytes + size <= most);
      if (fits && (one.identity === null || !this.keysInFlight.has(one.identity))) {
        ready.push(one);
        bytes += size;
      } else {
        this.overflows ||= !fits;
        later.push(one);
      }
    }
    const rows = batchRows.find((count) => count <= ready.length) ?? 0;
    this.waiting = [...ready.splice(rows), ...later];
    return ready;
  }
}
