import { ackIn } from './frame.js';
import type { ReceiverSocket, WsSocket } from './receiver-socket.js';

const open = 1;
const goingAway = 1001;

/** Frames are text messages; the client answers with the text `{"ack":"<message id>"}`. Pings are answered by every client. */
export function wsReceiver(socket: WsSocket): ReceiverSocket {
  return {
    get isOpen() {
      return socket.readyState === open;
    },
    listen({ acked, alive, closed }) {
      socket.on('message', (data: unknown) => {
        alive();
        const messageId = ackIn(data);
        if (messageId !== null) acked(messageId);
      });
      socket.on('pong', alive);
      socket.on('close', closed);
      // `close` follows. Without a listener the error would end the process.
      socket.on('error', () => undefined);
    },
    // A failed write closes the socket, which is told as `closed`.
    write: (frame) => socket.send(frame, () => undefined),
    ping() {
      if (socket.readyState === open) socket.ping();
    },
    close: () => socket.close(goingAway, 'going away'),
    terminate: () => socket.terminate(),
  };
}
