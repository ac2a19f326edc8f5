import { InvalidMessageError } from '../../../errors/invalid-message.error.js';
import type { AnySocket, ReceiverSocket } from './receiver-socket.js';
import { socketIoReceiver } from './socket-io-socket.js';
import { wsReceiver } from './ws-socket.js';

/** The side of the transport. */
export interface SocketOwner {
  connected(receiver: string, key: object, socket: ReceiverSocket): Promise<void>;
  disconnected(key: object): void;
}

const longestReceiver = 255;

/**
 * Tells `websocketTransport` which sockets belong to whom. A gateway injects it and calls `connect` once it knows who the
 * client is; the socket's end is noticed by itself.
 *
 * @example
 * \@WebSocketGateway({ path: '/ws' })
 * export class ChatGateway implements OnGatewayConnection {
 *   constructor(private readonly receivers: WebSocketReceivers) {}
 *   handleConnection(socket: WebSocket, request: IncomingMessage) {
 *     void this.receivers.connect(userOf(request), socket);
 *   }
 * }
 */
export class WebSocketReceivers {
  private owner: SocketOwner | null = null;

  /**
   * The socket gets the receiver's messages from now on, and what is parked for it is sent. Resolves when the receiver
   * was woken, or could not be; never rejects for that. Before the transport started, and once it has stopped, the
   * socket is closed: the client shall connect again.
   * @param receiver as in `enqueue({ receiver })`: 1 to 255 bytes
   * @throws InvalidMessageError for another receiver
   */
  async connect(receiver: string | number | bigint, socket: AnySocket): Promise<void> {
    const name = String(receiver);
    if (name === '' || Buffer.byteLength(name) > longestReceiver)
      throw new InvalidMessageError('receiver', `write 1 to ${longestReceiver} bytes`);
    const adapted = receiverSocket(socket);
    if (!this.owner) return adapted.close();
    await this.owner.connected(name, socket, adapted);
  }

  /** The socket belongs to nobody any more, after a logout for example. It stays open. */
  disconnect(socket: AnySocket): void {
    this.owner?.disconnected(socket);
  }

  /** For the transport. False: another one has it. */
  attach(owner: SocketOwner): boolean {
    if (this.owner) return false;
    this.owner = owner;
    return true;
  }

  /** For the transport. */
  detach(owner: SocketOwner): void {
    if (this.owner === owner) this.owner = null;
  }
}

function receiverSocket(socket: AnySocket): ReceiverSocket {
  if ('listen' in socket) return socket;
  return 'terminate' in socket ? wsReceiver(socket) : socketIoReceiver(socket);
}
