import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { opened } from './open-resources.js';

/** A way to the database that can break at the COMMIT of a connection. */
export interface CommitCutter {
  readonly port: number;
  /** COMMITs that were cut so far. */
  readonly cuts: number;
  /**
   * The next connection that has sent a statement with `text` is cut at its COMMIT: before the server sees it, or before
   * its answer comes back. Both look the same to the client.
   */
  cutNext(when: 'before' | 'after', text: string): void;
  close(): Promise<void>;
}

// The text ends the packet. What stands before it depends on the server.
const commits = ['COMMIT', 'COMMIT AND CHAIN'].map((sql) => Buffer.from(sql));

/** Listens on 127.0.0.1 and passes connections on to `port`. */
export async function commitCutter(port: number): Promise<CommitCutter> {
  const sockets = new Set<Socket>();
  let next: { readonly when: 'before' | 'after'; readonly text: string } | null = null;
  let cuts = 0;
  const server = createServer((client) => {
    const database = connect(port, '127.0.0.1');
    let isMute = false;
    let isMeant = false;
    const both = [client, database];
    for (const socket of both) {
      sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        sockets.delete(socket);
        for (const other of both) other.destroy();
      });
    }
    client.on('data', (data) => {
      isMeant ||= next !== null && data.includes(next.text);
      if (!isMeant || next === null || !commits.some((commit) => data.subarray(-commit.length).equals(commit)))
        return void database.write(data);
      const { when } = next;
      next = null;
      cuts++;
      if (when === 'before') return void client.destroy();
      isMute = true;
      database.write(data);
    });
    database.on('data', (data) => {
      // The server has answered, so it has committed.
      if (isMute) client.destroy();
      else client.write(data);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise<void>((resolve) => server.close(() => resolve()));
    closed();
  };
  const closed = opened({ what: 'a commit cutter', close });
  return {
    port: (server.address() as AddressInfo).port,
    get cuts() {
      return cuts;
    },
    cutNext(when, text) {
      next = { when, text };
    },
    close,
  };
}
