import { WebSocket } from 'ws';
import type { Instance } from './instance.js';

const reconnectAfterMs = 100;

interface Frame {
  readonly messageId: string;
  readonly seqNo: number;
}

/** A user of the chat: answers each frame, drops what it has seen, and connects again when its instance is gone. */
export class ChatClient {
  /** Numbers of the messages in the order in which they came, each once. */
  readonly seqNos: number[] = [];
  readonly seen = new Set<string>();
  /** Frames that came again. */
  repeats = 0;
  private socket: WebSocket | undefined;
  private timer: NodeJS.Timeout | undefined;
  private isOnline = false;
  private turn = 0;

  constructor(
    readonly userId: string,
    private readonly instances: () => readonly Instance[],
  ) {}

  goOnline(): void {
    if (this.isOnline) return;
    this.isOnline = true;
    this.connect();
  }

  goOffline(): void {
    this.isOnline = false;
    clearTimeout(this.timer);
    this.socket?.terminate();
  }

  private connect(): void {
    const alive = this.instances();
    const instance = alive[this.turn++ % alive.length];
    if (!instance) {
      this.connectLater();
      return;
    }
    const url = new URL(`/ws?userId=${this.userId}`, instance.url);
    url.protocol = 'ws:';
    const socket = new WebSocket(url);
    this.socket = socket;
    socket.on('message', (data: Buffer) => this.got(socket, JSON.parse(data.toString('utf8')) as Frame));
    // `close` follows.
    socket.on('error', () => undefined);
    socket.on('close', () => this.connectLater());
  }

  private connectLater(): void {
    if (this.isOnline) this.timer = setTimeout(() => this.connect(), reconnectAfterMs);
  }

  private got(socket: WebSocket, { messageId, seqNo }: Frame): void {
    if (this.seen.has(messageId)) {
      this.repeats++;
    } else {
      this.seen.add(messageId);
      this.seqNos.push(seqNo);
    }
    // An answer that is lost with the socket brings the frame again.
    socket.send(JSON.stringify({ ack: messageId }), () => undefined);
  }
}
