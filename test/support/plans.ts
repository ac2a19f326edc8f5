import { type Connection, createConnection } from 'mysql2/promise';
import { DataSource } from 'typeorm';
import { type ControlConnection, ControlPool, type Row, type StatementResult } from '../../src/database/index.js';
import type { TestDatabase } from './database.js';

export interface Statement {
  readonly sql: string;
  readonly values: readonly unknown[];
}

export interface PlanStep {
  readonly table: string | null;
  readonly type: string | null;
  readonly key: string | null;
  readonly Extra: string | null;
}

/** Notes every statement that goes through it. */
export class NotingPool extends ControlPool {
  readonly statements: Statement[] = [];
  /** Asked before a write is carried out: afterwards its rows do not match any more. */
  before: ((statement: Statement) => Promise<void>) | undefined;

  override async execute(sql: string, values: readonly unknown[] = []): Promise<StatementResult> {
    this.statements.push({ sql, values });
    await this.before?.({ sql, values });
    return super.execute(sql, values);
  }

  override rows<T extends Row>(sql: string, values: readonly unknown[] = []): Promise<T[]> {
    this.statements.push({ sql, values });
    return super.rows<T>(sql, values);
  }

  override transaction<T>(work: (tx: ControlConnection) => Promise<T>): Promise<T> {
    return super.transaction((tx) => {
      const noting = Object.create(tx) as ControlConnection;
      noting.rows = (sql, values = []) => {
        this.statements.push({ sql, values });
        return tx.rows(sql, values);
      };
      noting.query = async (sql, values = []) => {
        this.statements.push({ sql, values });
        await this.before?.({ sql, values });
        return tx.query(sql, values);
      };
      return work(noting);
    });
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
