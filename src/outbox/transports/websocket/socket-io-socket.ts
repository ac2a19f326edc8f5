import { ackIn } from './frame.js';
import type { ReceiverSocket, SocketIoSocket, SocketListener } from './receiver-socket.js';

/** The event that a client listens to. */
const frameEvent = 'message';

/**
 * A frame is the event `message` with an object; the client calls the event's callback with `{ ack: <message id> }`.
 * socket.io closes dead connections by itself, so there is no ping.
 */
export function socketIoReceiver(socket: SocketIoSocket): ReceiverSocket {
  let listener: SocketListener | undefined;
  return {
    get isOpen() {
      return socket.connected;
    },
    listen(given) {
      listener = given;
      socket.on('disconnect', given.closed);
    },
    write(frame) {
      // The callback is forgotten with its socket, and a socket that leaves frames unanswered is closed.
      socket.emit(frameEvent, JSON.parse(frame), (answer: unknown) => {
        const messageId = ackIn(answer);
        if (messageId !== null) listener?.acked(messageId);
      });
    },
    close: () => void socket.disconnect(true),
    terminate: () => void socket.disconnect(true),
  };
}
