import type { PoolConnection } from 'mysql2';
import { DatabaseUnavailableError } from '../errors/database-unavailable.error.js';
import { destroyConnection } from './destroy-connection.js';
import type { StatementResult } from './server-status.js';

/** A row as the control pool returns it. */
export type Row = Readonly<Record<string, unknown>>;

type Callback = (error: unknown, result: unknown) => void;

/** One connection of the control pool while it is lent out. Every statement is bounded by the statement timeout. */
export class ControlConnection {
  private destroyed = false;

  constructor(
    private readonly connection: PoolConnection,
    private readonly statementTimeoutMs: number,
  ) {}

  /** The session behind it: the same object whenever the same connection is lent out, for what is remembered of it. */
  get session(): object {
    return this.connection;
  }

  async execute(sql: string, values: readonly unknown[] = []): Promise<StatementResult> {
    return (await this.send((done) =>
      this.connection.execute(sql, values as never[], done as never),
    )) as StatementResult;
  }

  /** For statements of which each has another shape (a list of values): text protocol, values escaped by the driver. */
  async query(sql: string, values: readonly unknown[] = []): Promise<StatementResult> {
    return (await this.send((done) => this.connection.query(sql, values as never[], done as never))) as StatementResult;
  }

  async rows<T extends Row>(sql: string, values: readonly unknown[] = []): Promise<T[]> {
    return (await this.send((done) => this.connection.execute(sql, values as never[], done as never))) as T[];
  }

  /** Rows of a SELECT of which each has another shape. */
  async queryRows<T extends Row>(sql: string, values: readonly unknown[] = []): Promise<T[]> {
    return (await this.send((done) => this.connection.query(sql, values as never[], done as never))) as T[];
  }

  async begin(): Promise<void> {
    await this.query('START TRANSACTION');
  }

  async commit(): Promise<void> {
    await this.query('COMMIT');
  }

  /** Never throws: a connection that cannot roll back is destroyed, which rolls back too. */
  async rollback(): Promise<void> {
    if (this.destroyed) return;
    try {
      await this.query('ROLLBACK');
    } catch {
      this.destroy();
    }
  }

  destroy(): void {
    if (this.destroyed) return;
    this.destroyed = true;
    destroyConnection(this.connection, 'given up by mailroom');
  }

  release(): void {
    if (!this.destroyed) this.connection.release();
  }

  private send(start: (done: Callback) => void): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        reject(new DatabaseUnavailableError(`a statement got no answer within ${this.statementTimeoutMs} ms`));
        this.destroy();
      }, this.statementTimeoutMs);
      start((error, result) => {
        clearTimeout(timer);
        if (error) reject(error);
        else resolve(result);
      });
    });
  }
}
