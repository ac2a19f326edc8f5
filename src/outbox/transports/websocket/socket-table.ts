import { Connection, type ConnectionLimits } from './connection.js';
import type { Frame } from './frame.js';
import { firstAck, type PushResult } from './push-result.js';
import type { ReceiverSocket } from './receiver-socket.js';

export interface SocketTableLimits extends ConnectionLimits {
  readonly maxSockets: number;
}

/** The sockets of this instance by receiver. */
export class SocketTable {
  private readonly receivers = new Map<string, Set<Connection>>();
  private readonly bySocket = new WeakMap<object, Connection>();

  constructor(
    private readonly limits: SocketTableLimits,
    /** A receiver has no socket here any more. */
    private readonly onGone: (receiver: string) => void,
  ) {}

  /** `key`: the socket as the application knows it. A receiver with too many sockets loses its oldest. */
  add(receiver: string, key: object, socket: ReceiverSocket): boolean {
    this.remove(key);
    const connections = this.receivers.get(receiver) ?? new Set();
    const connection = new Connection(socket, this.limits, () => this.drop(receiver, connection));
    if (!connection.isOpen) return false;
    connections.add(connection);
    this.bySocket.set(key, connection);
    this.receivers.set(receiver, connections);
    const [oldest] = connections;
    if (connections.size > this.limits.maxSockets) oldest?.close();
    return true;
  }

  /** Nothing is pushed to the socket any more. It stays open. */
  remove(key: object): void {
    this.bySocket.get(key)?.end();
  }

  has(receiver: string): boolean {
    return this.receivers.has(receiver);
  }

  names(): IterableIterator<string> {
    return this.receivers.keys();
  }

  /** Pushes to all sockets of the receiver; the first acknowledgement counts. Settles within ackTimeout. */
  push(receiver: string, frame: Frame): Promise<PushResult> {
    return firstAck([...(this.receivers.get(receiver) ?? [])].map((connection) => connection.push(frame)));
  }

  checkLife(): void {
    for (const connection of this.all()) connection.checkLife();
  }

  closeAll(): void {
    for (const connection of this.all()) connection.close();
  }

  private all(): Connection[] {
    return [...this.receivers.values()].flatMap((connections) => [...connections]);
  }

  private drop(receiver: string, connection: Connection): void {
    const connections = this.receivers.get(receiver);
    if (!connections?.delete(connection) || connections.size > 0) return;
    this.receivers.delete(receiver);
    this.onGone(receiver);
  }
}
