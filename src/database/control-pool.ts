import mysql, { type Pool, type PoolConnection } from 'mysql2';
import type { DataSource } from 'typeorm';
import { DatabaseUnavailableError } from '../errors/database-unavailable.error.js';
import { connectionConfig } from './connection-config.js';
import { ControlConnection, type Row } from './control-connection.js';
import { isConnectionError, isReadOnly, isRetryable } from './database-error.js';
import { destroyConnection } from './destroy-connection.js';
import { OpenConnections } from './open-connections.js';
import type { StatementResult } from './server-status.js';

export type { Row };

/** How often a transaction of ours that lost a deadlock or a lock is run again before the error surfaces. */
const transactionAttempts = 5;
/** Statements and connection hand-outs beyond this wait in line; more than this in line is refused at once. */
const queueLimit = 10_000;

export interface ControlPoolOptions {
  /** Connections at most. Default 4. */
  readonly size: number;
  /** A statement without an answer for this long loses its connection. Default 10 s: far above a healthy one. */
  readonly statementTimeoutMs?: number;
}

/**
 * The few connections that mailroom keeps for itself: intake, claims, heartbeats and leases go through them, so that
 * slow handlers and leaked transactions of the application never stand in their way. Every session runs READ COMMITTED
 * in strict mode and waits at most 1 s for a row lock.
 *
 * A connection that fails inside a transaction, times out or meets a read-only server is destroyed, never pooled. One that
 * meets a read-only server takes those of its age with it: after a failover all of them lead to the old primary, and each
 * would cost a push to find that out.
 */
export class ControlPool {
  private readonly pool: Pool;
  private readonly statementTimeoutMs: number;
  private closing: Promise<void> | undefined;
  /** Counts failovers. A connection of an older generation is not handed out any more. */
  private generation = 0;
  private readonly generationOf = new WeakMap<PoolConnection, number>();
  private readonly open: OpenConnections;
  /** Since when somebody waits for a connection, longest first. */
  private readonly waitingSince = new Set<{ readonly since: number }>();

  /** @param dataSource only its options are read */
  constructor(dataSource: Pick<DataSource, 'options'>, options: ControlPoolOptions) {
    this.statementTimeoutMs = options.statementTimeoutMs ?? 10_000;
    this.pool = mysql.createPool({
      ...connectionConfig(dataSource),
      connectionLimit: options.size,
      maxIdle: options.size,
      queueLimit,
      enableKeepAlive: true,
      charset: 'utf8mb4',
      timezone: 'Z',
      dateStrings: true,
      supportBigNumbers: true,
      bigNumberStrings: true,
      maxPreparedStatements: 200,
    });
    this.open = new OpenConnections(this.pool);
    // These run before the statement that asked for the connection: the driver keeps the order of commands.
    this.pool.on('connection', (connection: PoolConnection) => {
      this.generationOf.set(connection, this.generation);
      for (const sql of sessionSettings) {
        connection.query(sql, (error) => {
          if (error) connection.destroy();
        });
      }
    });
  }

  /** One statement by itself, committed when this resolves. Values are bound by the server, not written into the text. */
  async execute(sql: string, values: readonly unknown[] = []): Promise<StatementResult> {
    return this.withConnection((connection) => connection.execute(sql, values));
  }

  /** Rows of one SELECT. BIGINT, DECIMAL and DATETIME come as strings; a JSON column must be CAST to CHAR. */
  async rows<T extends Row>(sql: string, values: readonly unknown[] = []): Promise<T[]> {
    return this.withConnection((connection) => connection.rows<T>(sql, values));
  }

  /**
   * Runs `work` in one READ COMMITTED transaction and commits. Lost deadlocks and lock waits are run again, at most
   * five times in all, so `work` must be free of effects outside the database.
   */
  async transaction<T>(work: (tx: ControlConnection) => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.withConnection((connection) => inTransaction(connection, work));
      } catch (error) {
        if (!isRetryable(error) || attempt >= transactionAttempts) throw error;
      }
    }
  }

  /** Hands out one connection for the time of `work`; use it for nothing after that. */
  async withConnection<T>(work: (connection: ControlConnection) => Promise<T>): Promise<T> {
    const pooled = await this.acquire();
    const connection = new ControlConnection(pooled, this.statementTimeoutMs);
    try {
      return await work(connection);
    } catch (error) {
      if (isReadOnly(error)) this.renew(pooled);
      if (isConnectionError(error) || isReadOnly(error)) connection.destroy();
      throw error;
    } finally {
      connection.release();
    }
  }

  /**
   * One small committed write: the proof that this database takes writes, which a SELECT is not. A row of its own, by
   * primary key; instances that write it at the same time wait for one another, at most 1 s.
   */
  async writeProbe(): Promise<void> {
    await this.execute(
      `INSERT INTO mailroom_setting (name, value) VALUES ('health_probe', CAST(UTC_TIMESTAMP(3) AS CHAR))
           ON DUPLICATE KEY UPDATE value = CAST(UTC_TIMESTAMP(3) AS CHAR)`,
    );
  }

  /** How long the first in line has been waiting for a connection; 0 when nobody waits. */
  longestWaitMs(): number {
    for (const { since } of this.waitingSince) return performance.now() - since;
    return 0;
  }

  /**
   * Closes all connections; nothing is sent after it. Statements in flight get at most `graceMs` to end, by default one
   * statement timeout. Then, or when the server does not end what it was asked to, the connections are destroyed.
   */
  close(graceMs = this.statementTimeoutMs): Promise<void> {
    this.closing ??= this.end(graceMs);
    return this.closing;
  }

  /** The driver says that it is done before the sockets are: one to a frozen server would keep the process alive. */
  private async end(graceMs: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, graceMs);
    });
    await Promise.race([late, new Promise<void>((resolve) => this.pool.end(() => resolve()))]);
    await Promise.race([late, this.open.closed()]);
    clearTimeout(timer);
    this.open.destroy('it did not close in time');
  }

  /** An error of a connection that was replaced already says nothing about the new ones. */
  private renew(pooled: PoolConnection): void {
    if (this.generationOf.get(pooled) === this.generation) this.generation++;
  }

  private async acquire(): Promise<PoolConnection> {
    for (;;) {
      const connection = await this.take();
      if (this.generationOf.get(connection) === this.generation) return connection;
      destroyConnection(connection, 'the server of its time became read-only');
    }
  }

  private take(): Promise<PoolConnection> {
    return new Promise((resolve, reject) => {
      let late = false;
      const place = { since: performance.now() };
      this.waitingSince.add(place);
      const timer = setTimeout(() => {
        late = true;
        this.waitingSince.delete(place);
        reject(new DatabaseUnavailableError(`no control connection became free within ${this.statementTimeoutMs} ms`));
      }, this.statementTimeoutMs);
      this.pool.getConnection((error, connection) => {
        clearTimeout(timer);
        this.waitingSince.delete(place);
        if (late) connection?.release();
        else if (error) reject(error);
        else resolve(connection);
      });
    });
  }
}

/** Strict mode, so that nothing is cut in silence; a short lock wait, since a caller may hold a key in its transaction. */
const sessionSettings = [
  'SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED',
  "SET SESSION innodb_lock_wait_timeout = 1, sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO', time_zone = '+00:00'",
];

async function inTransaction<T>(
  connection: ControlConnection,
  work: (tx: ControlConnection) => Promise<T>,
): Promise<T> {
  await connection.begin();
  try {
    const result = await work(connection);
    await connection.commit();
    return result;
  } catch (error) {
    await connection.rollback();
    throw error;
  }
}
