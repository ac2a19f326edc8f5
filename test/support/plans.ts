import { type Connection, createConnection } from 'mysql2/promise';
import { DataSource } from 'typeorm';
import { type ControlConnection, ControlPool } from '../../src/database/index.js';
import type { TestDatabase } from './database.js';

export interface Statement {
  readonly sql: string;
  readonly values: readonly unknown[];
}

export interface PlanStep {
  readonly select_type: string | null;
  readonly table: string | null;
  readonly type: string | null;
  readonly key: string | null;
  readonly rows: number | string | null;
  readonly Extra: string | null;
}

/** Notes every statement that goes through it, but for those that begin and end transactions. */
export class NotingPool extends ControlPool {
  readonly statements: Statement[] = [];
  /** Asked before a write is carried out: afterwards its rows do not match any more. */
  before: ((statement: Statement) => Promise<void>) | undefined;
  /** Asked before a read is carried out. */
  beforeRead: ((statement: Statement) => Promise<void>) | undefined;

  override withConnection<T>(work: (connection: ControlConnection) => Promise<T>): Promise<T> {
    return super.withConnection((connection) => work(this.noting(connection)));
  }

  private noting(connection: ControlConnection): ControlConnection {
    const noting = Object.create(connection) as ControlConnection;
    const note = async (statement: Statement, isRead: boolean) => {
      this.statements.push(statement);
      await (isRead ? this.beforeRead : this.before)?.(statement);
    };
    noting.rows = async (sql, values = []) => {
      await note({ sql, values }, true);
      return connection.rows(sql, values);
    };
    noting.queryRows = async (sql, values = []) => {
      await note({ sql, values }, true);
      return connection.queryRows(sql, values);
    };
    noting.execute = async (sql, values = []) => {
      await note({ sql, values }, false);
      return connection.execute(sql, values);
    };
    noting.query = async (sql, values = []) => {
      await note({ sql, values }, false);
      return connection.query(sql, values);
    };
    noting.begin = () => connection.begin();
    noting.commit = () => connection.commit();
    noting.rollback = () => connection.rollback();
    return noting;
  }
}

/** Looks at what statements cost: their plans, and the rows that the server reads for them. */
export class PlanWatch {
  private constructor(
    private readonly database: TestDatabase,
    private readonly dataSource: DataSource,
    private readonly connection: Connection,
    readonly pool: NotingPool,
  ) {}

  static async open(database: TestDatabase): Promise<PlanWatch> {
    const dataSource = await new DataSource(database.options).initialize();
    const pool = new NotingPool(dataSource, { size: 4 });
    return new PlanWatch(database, dataSource, await createConnection(database.url), pool);
  }

  async close(): Promise<void> {
    await this.connection.end();
    await this.pool.close();
    await this.dataSource.destroy();
  }

  /** The statements that `work` sends. */
  async noted(work: () => Promise<unknown>): Promise<Statement[]> {
    const from = this.pool.statements.length;
    await work();
    return this.pool.statements.slice(from);
  }

  async plan({ sql, values }: Statement): Promise<PlanStep[]> {
    const format = this.database.flavour === 'mysql' ? 'FORMAT=TRADITIONAL ' : '';
    const [rows] = await this.connection.query(`EXPLAIN ${format}${sql}`, [...values]);
    return rows as PlanStep[];
  }

  /** Rows that the server reads for a statement, found or passed over. */
  async rowsRead({ sql, values }: Statement): Promise<number> {
    await this.connection.query('FLUSH STATUS');
    await this.connection.query(sql, [...values]);
    const [rows] = await this.connection.query("SHOW SESSION STATUS LIKE 'Handler_read%'");
    return (rows as { Value: string }[]).reduce((sum, row) => sum + Number(row.Value), 0);
  }

  /** Every statement uses an index, sorts nothing, and if it is a SELECT reads at most `mostRows`. */
  async expectCheap(statements: readonly Statement[], mostRows: number): Promise<void> {
    expect(statements.length).toBeGreaterThan(0);
    for (const statement of statements) {
      for (const step of await this.plan(statement)) {
        expect(`${step.Extra ?? ''} of ${statement.sql}`).not.toMatch(/filesort|temporary; Using filesort/);
        if (step.table?.match(/(in|out)box_message|^[mo]$/))
          expect([statement.sql, step.key]).toEqual([statement.sql, expect.any(String)]);
      }
      if (/^\s*\(?SELECT/i.test(statement.sql)) {
        const read = await this.rowsRead(statement);
        expect(`${read <= mostRows} ${read} of ${statement.sql}`).toMatch(/^true/);
      }
    }
  }
}

/** Numbers from `from` on, `count` of them, as a derived table `numbers(n)`; at most 10,000. */
export function numbers(from: number, count: number): string {
  const digits = `(SELECT 0 AS d ${[1, 2, 3, 4, 5, 6, 7, 8, 9].map((d) => `UNION ALL SELECT ${d}`).join(' ')})`;
  return `(SELECT ${from} + a.d + 10 * b.d + 100 * c.d + 1000 * d.d AS n FROM ${digits} a, ${digits} b, ${digits} c, ${digits} d
            WHERE a.d + 10 * b.d + 100 * c.d + 1000 * d.d < ${count}) numbers`;
}
