import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { opened } from './open-resources.js';

/** A name that can be moved to another server, as a failover does it: open connections stay where they are. */
export interface TcpSwitch {
  readonly port: number;
  /** New connections go there from now on. */
  pointTo(port: number): void;
  /** Ends all open connections; new ones are taken. */
  drop(): void;
  /** The cable is pulled: what is open stays open and passes nothing on, not even an end. For good. */
  cut(): void;
  close(): Promise<void>;
}

/** Listens on 127.0.0.1 and passes connections on to `port`. */
export async function tcpSwitch(port: number): Promise<TcpSwitch> {
  let target = port;
  let isCut = false;
  const sockets = new Set<Socket>();
  const server = createServer((from) => {
    const to = connect(target, '127.0.0.1');
    for (const [one, other] of [
      [from, to],
      [to, from],
    ] as const) {
      sockets.add(one);
      one.setNoDelay(true);
      one.on('error', () => end(other));
      one.on('close', () => {
        sockets.delete(one);
        end(other);
      });
    }
    from.pipe(to).pipe(from);
  });
  const end = (socket: Socket) => void (isCut || socket.destroy());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise<void>((resolve) => server.close(() => resolve()));
    closed();
  };
  const closed = opened({ what: 'a TCP switch', close });
  return {
    port: (server.address() as AddressInfo).port,
    pointTo(next) {
      target = next;
    },
    drop() {
      for (const socket of sockets) socket.destroy();
    },
    cut() {
      isCut = true;
      for (const socket of sockets) socket.unpipe().pause();
    },
    close,
  };
}
