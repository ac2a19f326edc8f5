import type { DataSource, EntityManager, QueryRunner } from 'typeorm';
import { endsTransaction, isStatementResult, type StatementResult, saysInTransaction } from '../database/index.js';
import { TransactionDoomedError } from '../errors/transaction-doomed.error.js';
import type { HandlerSession, RawConnection } from './handler-session.js';

type Query = QueryRunner['query'];

/**
 * The transaction behind `ctx.manager`: opened by the first statement, ended by the engine only.
 *
 * It is doomed by anything after which the server may have no transaction any more (deadlock, lock wait, lost
 * connection, timeout): TypeORM would believe that it is still open while statements commit one by one. Once doomed or
 * over, no statement of the handler reaches the server, however late it comes.
 */
export class HandlerTransaction {
  readonly manager: EntityManager;
  private readonly runner: QueryRunner;
  private readonly original: {
    readonly query: Query;
    readonly startNested: QueryRunner['startTransaction'];
    readonly commit: QueryRunner['commitTransaction'];
    readonly rollback: QueryRunner['rollbackTransaction'];
    readonly stream: QueryRunner['stream'];
    readonly connect: QueryRunner['connect'];
  };
  private begun: Promise<void> | undefined;
  private ended: { readonly reason: string; readonly cause?: unknown } | undefined;
  /** What the last statement said: true = in a transaction, undefined = somebody used the connection behind our back. */
  private inTransaction: boolean | undefined = true;
  private started = false;
  private committed = false;
  /** How the transaction is being ended. Once that statement is on its way, one behind it would commit by itself. */
  private last: { readonly sql: 'COMMIT' | 'ROLLBACK'; readonly chain: boolean; sent: boolean } | undefined;

  constructor(
    dataSource: DataSource,
    private readonly session: HandlerSession,
  ) {
    this.runner = dataSource.createQueryRunner('master');
    const runner = this.runner;
    this.original = {
      query: runner.query.bind(runner) as Query,
      startNested: runner.startTransaction.bind(runner),
      commit: runner.commitTransaction.bind(runner),
      rollback: runner.rollbackTransaction.bind(runner),
      stream: runner.stream.bind(runner),
      connect: runner.connect.bind(runner),
    };
    this.guard();
    this.manager = runner.manager;
  }

  /** True once a statement was sent: without one there is nothing to commit. */
  get isOpen(): boolean {
    return this.begun !== undefined;
  }

  get isDoomed(): boolean {
    return this.ended !== undefined;
  }

  /** Sends one of the engine's own statements inside this transaction. */
  send = async (sql: string, values: readonly unknown[]): Promise<StatementResult> => {
    const result = (await this.query(sql, [...values])) as unknown;
    if (!isStatementResult(result)) throw new TypeError('the driver returned no result for an UPDATE');
    return result;
  };

  /**
   * As `send`, for a statement that always has the same text: prepared once for each session, since to read and plan a mark
   * anew costs the server as much as to carry it out.
   */
  sendPrepared = async (sql: string, values: readonly unknown[]): Promise<StatementResult> => {
    this.refuseIfEnded();
    await this.begin();
    const connection = await this.session.open();
    this.refuseIfEnded();
    try {
      const [result] = await connection.promise().execute(sql, values);
      if (!isStatementResult(result)) throw new TypeError('the driver returned no result for an UPDATE');
      this.note(sql, result);
      return result;
    } catch (error) {
      if (endsTransaction(error)) this.doom('the server ended it', error);
      throw error;
    }
  };

  /** Rows of one of the engine's own SELECTs inside this transaction: it sees what the transaction wrote. */
  rows = async <T>(sql: string, values: readonly unknown[]): Promise<T[]> =>
    (await this.query(sql, [...values])) as T[];

  /**
   * Asks the server whether the transaction is still open. It is not after a deadlock that the handler swallowed or
   * after DDL, which commits; a success mark would then stand without the handler's writes, or the other way round.
   */
  async assertInTransaction(): Promise<void> {
    await this.begun;
    if (this.ended) throw new TransactionDoomedError(this.ended.reason, { cause: this.ended.cause });
    if (this.inTransaction === undefined) await this.query('DO 0');
    if (this.inTransaction !== true) {
      const reason = 'the server says that no transaction is open: a deadlock was swallowed, or DDL committed it';
      this.doom(reason);
      throw new TransactionDoomedError(reason);
    }
  }

  /**
   * Commits. A rejection is in doubt: the caller must look at the row. A subscriber of the application that throws
   * after the COMMIT does not make it undone: that counts as committed.
   * @param chain the session's next transaction is opened with it, which saves its START TRANSACTION
   */
  async commit(chain = false): Promise<void> {
    this.last = { sql: 'COMMIT', chain, sent: false };
    try {
      this.leaveSavepoints();
      await this.original.commit();
    } catch (error) {
      if (!this.committed) {
        this.doom('the commit failed', error);
        throw error;
      }
    }
    this.end('it was committed');
  }

  /** Rolls back if there is something to roll back. Never throws. */
  async rollback(reason: string): Promise<void> {
    if (this.ended) return;
    if (this.started) {
      // Nothing that comes from here on is to be kept, so it need not be sent.
      this.last = { sql: 'ROLLBACK', chain: false, sent: true };
      try {
        this.leaveSavepoints();
        await this.original.rollback();
      } catch (error) {
        this.doom(reason, error);
        return;
      }
    }
    this.end(reason);
  }

  /**
   * Ends the transaction by ending its connection, never by ROLLBACK: that would queue behind the running statement,
   * and the late handler's next statement would commit by itself on a connection that is back in the pool.
   */
  doom(reason: string, cause?: unknown): void {
    if (this.ended) return;
    this.end(reason, cause);
    if (this.begun) this.session.destroy(reason);
  }

  private end(reason: string, cause?: unknown): void {
    this.ended = { reason, cause };
  }

  /** Repositories must see an open transaction before the first statement, or `save()` would open and commit its own. */
  private guard(): void {
    const runner = this.runner;
    Object.assign(runner, { isTransactionActive: true });
    runner.query = ((sql: string, values?: unknown[], structured?: boolean) =>
      this.query(sql, values, structured)) as Query;
    runner.startTransaction = async (isolation) => {
      this.refuseIfEnded();
      await this.begin();
      await this.original.startNested(isolation);
    };
    runner.commitTransaction = () => this.nested('commitTransaction', this.original.commit);
    runner.rollbackTransaction = () => this.nested('rollbackTransaction', this.original.rollback);
    runner.release = async () => {
      throw new TransactionDoomedError(
        'ctx.manager belongs to the message: its query runner is released by mailroom, not by the handler',
      );
    };
    runner.stream = async (...args) => {
      this.refuseIfEnded();
      await this.begin();
      this.inTransaction = undefined;
      return this.original.stream(...args);
    };
    runner.connect = async () => {
      this.refuseIfEnded();
      await this.begin();
      this.inTransaction = undefined;
      return this.original.connect();
    };
  }

  /** The handler may end its own savepoints; the message's transaction is not its to end. */
  private async nested(method: string, original: () => Promise<void>): Promise<void> {
    this.refuseIfEnded();
    if ((this.runner as unknown as RunnerInside).transactionDepth <= 1) {
      throw new TransactionDoomedError(`${method}: the message's transaction is ended by mailroom, with the outcome`);
    }
    await original();
  }

  private async query(sql: string, values?: unknown[], structured?: boolean): Promise<unknown> {
    this.refuseIfEnded(sql);
    await this.begin();
    this.refuseIfEnded(sql);
    const isLast = sql === this.last?.sql;
    if (this.last && isLast) this.last.sent = true;
    const sent = this.sendRaw(isLast && this.last?.chain ? `${sql} AND CHAIN` : sql, values);
    try {
      const result = (await sent) as { raw: unknown };
      this.note(sql, result.raw);
      return structured ? result : result.raw;
    } catch (error) {
      if (endsTransaction(error)) this.doom('the server ended it', error);
      throw error;
    }
  }

  /** The original asks for its connection before it first awaits; only a handler's own connect() is behind our back. */
  private sendRaw(sql: string, values?: unknown[]): Promise<unknown> {
    const { connect } = this.runner;
    this.runner.connect = this.original.connect;
    try {
      return this.original.query(sql, values, true);
    } finally {
      this.runner.connect = connect;
    }
  }

  private note(sql: string, raw: unknown): void {
    if (sql === 'COMMIT') this.committed = true;
    if (isStatementResult(raw)) {
      this.inTransaction = saysInTransaction(raw);
      if (sql === 'COMMIT') this.session.isChained = this.inTransaction;
    } else if (/^\s*(call|begin|start|commit|rollback)\b/i.test(sql)) this.inTransaction = undefined;
  }

  private begin(): Promise<void> {
    this.begun ??= this.reallyBegin();
    return this.begun;
  }

  private async reallyBegin(): Promise<void> {
    const connection = await this.session.open();
    this.refuseIfEnded();
    const inside = this.runner as unknown as RunnerInside;
    inside.databaseConnection = connection;
    try {
      await this.runner.broadcaster.broadcast('BeforeTransactionStart');
      // The session is READ COMMITTED already, whatever default the DataSource has.
      if (!this.session.isChained) await this.sendRaw('START TRANSACTION');
      this.session.isChained = false;
      inside.transactionDepth = 1;
      await this.runner.broadcaster.broadcast('AfterTransactionStart');
    } catch (error) {
      this.end('it could not be started', error);
      this.session.destroy('its transaction could not be started');
      throw error;
    }
    this.refuseIfEnded();
    this.started = true;
  }

  /** A savepoint that the handler left open must not stand between the engine and its COMMIT or ROLLBACK. */
  private leaveSavepoints(): void {
    (this.runner as unknown as RunnerInside).transactionDepth = 1;
  }

  private refuseIfEnded(sql?: string): void {
    if (this.last?.sent && sql !== this.last.sql && !this.ended)
      throw new TransactionDoomedError('its transaction is being ended');
    if (this.ended) throw new TransactionDoomedError(this.ended.reason, { cause: this.ended.cause });
  }
}

/** Protected fields of TypeORM's runner, the same in 0.3 and 1.x: a runner takes a connection only if it has none. */
interface RunnerInside {
  databaseConnection: RawConnection;
  transactionDepth: number;
}
