import type { Frame } from './frame.js';
import type { PushResult } from './push-result.js';
import type { ReceiverSocket } from './receiver-socket.js';

export interface ConnectionLimits {
  readonly ackTimeoutMs: number;
  readonly maxUnanswered: number;
  readonly maxUnansweredBytes: number;
}

interface Unanswered {
  readonly bytes: number;
  readonly timer: NodeJS.Timeout;
  readonly waiting: ((result: PushResult) => void)[];
}

/**
 * One socket of a receiver and what was written to it without an answer so far. Every push settles: with the
 * acknowledgement, with the end of the socket, or after ackTimeout, when the socket is taken for dead and ended.
 */
export class Connection {
  private readonly unanswered = new Map<string, Unanswered>();
  private bytes = 0;
  private isAlive = true;
  private ended: boolean;

  constructor(
    private readonly socket: ReceiverSocket,
    private readonly limits: ConnectionLimits,
    private readonly onEnd: () => void,
  ) {
    this.ended = !socket.isOpen;
    socket.listen({
      acked: (messageId) => this.settle(messageId, 'acked'),
      alive: () => {
        this.isAlive = true;
      },
      closed: () => this.end(),
    });
  }

  get isOpen(): boolean {
    return !this.ended;
  }

  push({ messageId, text }: Frame): Promise<PushResult> {
    if (this.ended) return Promise.resolve('closed');
    const known = this.unanswered.get(messageId);
    // Sent again while the client has not answered the first time: it has the frame already.
    if (known) return new Promise((resolve) => known.waiting.push(resolve));
    const { ackTimeoutMs, maxUnanswered, maxUnansweredBytes } = this.limits;
    const isFull = this.unanswered.size >= maxUnanswered || this.bytes + text.length > maxUnansweredBytes;
    // One frame may be larger than all that may wait: it is let through alone.
    if (isFull && this.unanswered.size > 0) return Promise.resolve('busy');
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.unansweredTooLong(messageId), ackTimeoutMs);
      this.unanswered.set(messageId, { bytes: text.length, timer, waiting: [resolve] });
      this.bytes += text.length;
      try {
        this.socket.write(text);
      } catch {
        this.terminate();
      }
    });
  }

  /** Ends the socket when the last ping brought no sign of life, else sends the next. */
  checkLife(): void {
    if (!this.socket.ping || this.ended) return;
    if (this.isAlive) {
      this.isAlive = false;
      this.socket.ping();
    } else {
      this.terminate();
    }
  }

  close(): void {
    this.socket.close();
    this.end();
  }

  /** Forgets the socket and leaves it open. */
  end(): void {
    if (this.ended) return;
    this.ended = true;
    for (const messageId of [...this.unanswered.keys()]) this.settle(messageId, 'closed');
    this.onEnd();
  }

  private unansweredTooLong(messageId: string): void {
    this.settle(messageId, 'unanswered');
    this.terminate();
  }

  private terminate(): void {
    this.socket.terminate();
    this.end();
  }

  private settle(messageId: string, result: PushResult): void {
    const entry = this.unanswered.get(messageId);
    if (!entry) return;
    this.unanswered.delete(messageId);
    this.bytes -= entry.bytes;
    clearTimeout(entry.timer);
    for (const resolve of entry.waiting) resolve(result);
  }
}
