import type { DataSource, EntitySubscriberInterface, QueryRunner } from 'typeorm';

interface TransactionEvent {
  readonly queryRunner: QueryRunner;
}

/** Depth of the runner's transaction, 1 without savepoints: a protected field, the same in TypeORM 0.3 and 1.x. */
function depthOf(runner: QueryRunner): number {
  return (runner as unknown as { readonly transactionDepth: number }).transactionDepth;
}

/**
 * Tells when a transaction that enqueued something has committed: the outermost COMMIT only, not a savepoint's, not what
 * a savepoint took back, and not a COMMIT that failed. Telling cannot fail or delay the request.
 */
export class CommitWatcher implements EntitySubscriberInterface {
  /** By runner: at which depth something was enqueued. */
  private readonly enqueued = new WeakMap<QueryRunner, number[]>();

  constructor(private readonly onCommit: () => void) {}

  /** Watches a DataSource; returns the function that ends it. */
  watch(dataSource: DataSource): () => void {
    // First in line: a subscriber of the application that throws must not hide the commit.
    dataSource.subscribers.unshift(this);
    return () => {
      const at = dataSource.subscribers.indexOf(this);
      if (at >= 0) dataSource.subscribers.splice(at, 1);
    };
  }

  note(runner: QueryRunner): void {
    const depths = this.enqueued.get(runner) ?? [];
    this.enqueued.set(runner, [...depths, depthOf(runner)]);
  }

  afterTransactionCommit({ queryRunner }: TransactionEvent): void {
    const depths = this.enqueued.get(queryRunner);
    if (!depths) return;
    if (queryRunner.isTransactionActive) {
      // A savepoint was released: what it holds belongs to the transaction around it now.
      const depth = depthOf(queryRunner);
      this.enqueued.set(
        queryRunner,
        depths.map((one) => Math.min(one, depth)),
      );
      return;
    }
    this.enqueued.delete(queryRunner);
    if (depths.length > 0) this.onCommit();
  }

  afterTransactionRollback({ queryRunner }: TransactionEvent): void {
    const depths = this.enqueued.get(queryRunner);
    if (!depths) return;
    if (!queryRunner.isTransactionActive) {
      this.enqueued.delete(queryRunner);
      return;
    }
    const depth = depthOf(queryRunner);
    this.enqueued.set(
      queryRunner,
      depths.filter((one) => one <= depth),
    );
  }
}
