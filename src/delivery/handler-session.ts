import type { DataSource } from 'typeorm';
import { type Dialect, destroyConnection, isStatementResult, saysInTransaction } from '../database/index.js';

/** The mysql2 connection under a TypeORM query runner, which TypeORM hands out untyped. */
export interface RawConnection {
  promise(): {
    query(sql: string, values?: readonly unknown[]): Promise<[unknown, unknown]>;
    execute(sql: string, values?: readonly unknown[]): Promise<[unknown, unknown]>;
  };
  release(): void;
  destroy(): void;
}

interface SavedSettings {
  readonly isolation: string;
  readonly waitTimeout: number;
}

/**
 * One connection of the application's pool, kept while a lane has work, so that a handler's transaction costs no
 * further statement than BEGIN and COMMIT, and in a row of messages only COMMIT. While it is here it runs READ COMMITTED and carries a `wait_timeout` after
 * which the server ends it: a frozen process must not hold its row locks for ever. Both are put back before the
 * connection returns to the application.
 */
export class HandlerSession {
  private connection: RawConnection | undefined;
  private saved: SavedSettings | undefined;
  /** The last commit opened the next transaction (COMMIT AND CHAIN). It holds no lock and no snapshot until it is used. */
  isChained = false;

  constructor(
    private readonly dataSource: DataSource,
    private readonly dialect: () => Promise<Dialect>,
    private readonly waitTimeoutSeconds: number,
  ) {}

  /** The connection, taken from the application's pool at first use. */
  async open(): Promise<RawConnection> {
    if (this.connection) return this.connection;
    const { isolationVariable } = await this.dialect();
    const connection = await this.acquireClean();
    try {
      const [rows] = await connection
        .promise()
        .query(`SELECT @@SESSION.${isolationVariable} AS isolation, @@SESSION.wait_timeout AS waitTimeout`);
      this.saved = savedSettings(rows);
      await apply(connection, isolationVariable, { isolation: 'READ-COMMITTED', waitTimeout: this.waitTimeoutSeconds });
    } catch (error) {
      destroyConnection(connection, 'its session could not be prepared');
      throw error;
    }
    const promised = connection.promise();
    // TypeORM asks for it with every statement, and the driver makes a new one each time.
    connection.promise = () => promised;
    this.connection = connection;
    return connection;
  }

  /** Ends the connection: its transaction is in doubt or a statement of a late handler may still run on it. */
  destroy(why: string): void {
    if (!this.connection) return;
    destroyConnection(this.connection, why);
    this.connection = undefined;
    this.saved = undefined;
    this.isChained = false;
  }

  /** Gives the connection back to the application as it was. Never throws. */
  async close(): Promise<void> {
    const { connection, saved, isChained } = this;
    this.connection = undefined;
    this.saved = undefined;
    this.isChained = false;
    if (!connection || !saved) return;
    // The driver's own method, which this one hides.
    Reflect.deleteProperty(connection, 'promise');
    try {
      if (isChained) await connection.promise().query('ROLLBACK');
      await apply(connection, (await this.dialect()).isolationVariable, saved);
      connection.release();
    } catch {
      destroyConnection(connection, 'its session could not be put back');
    }
  }

  /**
   * A pooled connection may carry a transaction that somebody left open. Ours would silently commit it, so such a
   * connection is ended, which rolls it back, and another one is taken.
   */
  private async acquireClean(): Promise<RawConnection> {
    for (;;) {
      const connection = (await this.dataSource.createQueryRunner('master').connect()) as RawConnection;
      const [result] = await connection
        .promise()
        .query('DO 0')
        .catch((error: unknown) => {
          destroyConnection(connection, 'it did not answer');
          throw error;
        });
      if (!isStatementResult(result) || !saysInTransaction(result)) return connection;
      destroyConnection(connection, 'it came back to the pool with an open transaction');
    }
  }
}

function savedSettings(rows: unknown): SavedSettings {
  const row = (rows as { isolation: string; waitTimeout: number | string }[])[0];
  return { isolation: row?.isolation ?? 'REPEATABLE-READ', waitTimeout: Number(row?.waitTimeout ?? 28_800) };
}

async function apply(connection: RawConnection, isolationVariable: string, settings: SavedSettings): Promise<void> {
  await connection
    .promise()
    .query(`SET SESSION ${isolationVariable} = ?, SESSION wait_timeout = ?`, [
      settings.isolation,
      settings.waitTimeout,
    ]);
}
