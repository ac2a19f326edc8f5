import type { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import type { DataSource } from 'typeorm';
import { destroyConnection } from './destroy-connection.js';

/** The driver's own list of connections, those that are being made included. It is not part of its types. */
interface Made {
  toArray?(): readonly object[];
}

/**
 * The connections of a mysql2 pool whose sockets are open. The driver says that a pool is closed before its sockets are,
 * or never while a server that stands still owes an answer: either would keep a process from ending.
 */
export class OpenConnections {
  private readonly closing = new Map<object, Promise<void>>();

  constructor(private readonly pool: Pick<EventEmitter, 'on'> & { readonly _allConnections?: Made }) {
    pool.on('connection', (connection: object) => this.add(connection));
    // Those that were made before.
    pool.on('acquire', (connection: object) => this.add(connection));
  }

  /** Resolves when those that are open now are closed. */
  async closed(): Promise<void> {
    this.addConnecting();
    await Promise.all(this.closing.values());
  }

  /** Statements in flight reject, and the server rolls back what was open. */
  destroy(why: string): void {
    this.addConnecting();
    for (const connection of this.closing.keys()) destroyConnection(connection, why);
  }

  /** The driver tells of a connection when the server has greeted it, which one that stands still never does. */
  private addConnecting(): void {
    for (const connection of this.pool._allConnections?.toArray?.() ?? []) this.add(connection);
  }

  private add(connection: object): void {
    if (this.closing.has(connection)) return;
    const { stream } = connection as { readonly stream: Pick<Socket, 'once'> };
    const closed = new Promise<void>((resolve) => {
      stream.once('close', () => {
        this.closing.delete(connection);
        resolve();
      });
    });
    this.closing.set(connection, closed);
  }
}

/** Those of the application's own pool; null where it has none that can be watched (replication has several). */
export function applicationConnections({ driver }: DataSource): OpenConnections | null {
  const { pool } = driver as unknown as { readonly pool?: EventEmitter };
  return typeof pool?.on === 'function' ? new OpenConnections(pool) : null;
}
