import type { DataSource, EntitySubscriberInterface, QueryRunner } from 'typeorm';
import { isDeadlock } from '../database/index.js';

interface TransactionEvent {
  readonly queryRunner: QueryRunner;
}

interface QueryEnd extends TransactionEvent {
  readonly success: boolean;
  readonly error?: unknown;
}

/** An enqueue under way. */
export interface EnqueueTicket {
  /** Depth at which it began, 1 without savepoints. */
  readonly depth: number;
  /** Why nothing more may be sent; null: the transaction is as it was. */
  over: string | null;
}

/** What is known of the transaction of one runner. */
interface Watched {
  /** At which depth something was enqueued. */
  enqueued: number[];
  readonly tickets: Set<EnqueueTicket>;
  /** Why nothing can be enqueued until the next transaction, or the end of the savepoint. */
  closed: string | null;
}

const lost = 'a deadlock rolled the transaction back; let its error end the transaction';
const ending = 'it is ending: wait for everything that is enqueued before the transaction returns';

/** Depth of the runner's transaction, 1 without savepoints: a protected field, the same in TypeORM 0.3 and 1.x. */
function depthOf(runner: QueryRunner): number {
  return (runner as unknown as { readonly transactionDepth: number }).transactionDepth;
}

/**
 * Watches the transactions of a DataSource for the outbox. Tells when one that enqueued something has committed: the
 * outermost COMMIT only, not a savepoint's, not what a savepoint took back, and not a COMMIT that failed. Telling cannot
 * fail or delay the request. Also stops what would be enqueued after the end: TypeORM believes in a transaction until
 * ROLLBACK is answered, and beyond a deadlock; a late INSERT would commit by itself.
 */
export class CommitWatcher implements EntitySubscriberInterface {
  private readonly watched = new WeakMap<QueryRunner, Watched>();

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

  /** An enqueue begins: it looks at its ticket before each statement, and leaves in the end. */
  enter(runner: QueryRunner): EnqueueTicket {
    const state = this.stateOf(runner);
    // In a handler the first statement opens the transaction: the depth is 0 until then.
    const ticket: EnqueueTicket = { depth: Math.max(1, depthOf(runner)), over: state.closed };
    state.tickets.add(ticket);
    return ticket;
  }

  leave(runner: QueryRunner, ticket: EnqueueTicket, enqueued: boolean): void {
    const state = this.stateOf(runner);
    state.tickets.delete(ticket);
    if (enqueued) state.enqueued.push(depthOf(runner));
  }

  afterTransactionStart({ queryRunner }: TransactionEvent): void {
    const state = this.watched.get(queryRunner);
    if (!state || depthOf(queryRunner) !== 1) return;
    state.enqueued = [];
    state.closed = null;
  }

  beforeTransactionCommit({ queryRunner }: TransactionEvent): void {
    if (depthOf(queryRunner) === 1) this.close(queryRunner, ending);
  }

  beforeTransactionRollback({ queryRunner }: TransactionEvent): void {
    this.close(queryRunner, ending);
  }

  /** Runs before the application sees the error, so also before it swallows it. */
  afterQuery({ queryRunner, success, error }: QueryEnd): void {
    if (success || !queryRunner?.isTransactionActive || !isDeadlock(error)) return;
    this.close(queryRunner, lost, 0);
  }

  afterTransactionCommit({ queryRunner }: TransactionEvent): void {
    const state = this.watched.get(queryRunner);
    if (!state) return;
    if (queryRunner.isTransactionActive) {
      // A savepoint was released: what it holds belongs to the transaction around it now.
      const depth = depthOf(queryRunner);
      state.enqueued = state.enqueued.map((one) => Math.min(one, depth));
      return;
    }
    this.watched.delete(queryRunner);
    if (state.enqueued.length > 0) this.tell();
  }

  afterTransactionRollback({ queryRunner }: TransactionEvent): void {
    const state = this.watched.get(queryRunner);
    if (!state) return;
    if (!queryRunner.isTransactionActive) {
      // Kept closed: an enqueue that was not waited for may still come.
      state.enqueued = [];
      return;
    }
    const depth = depthOf(queryRunner);
    state.enqueued = state.enqueued.filter((one) => one <= depth);
    if (state.closed === ending) state.closed = null;
  }

  /** Ends the enqueues that began at the runner's depth or below, and refuses new ones. */
  private close(runner: QueryRunner, why: string, from = depthOf(runner)): void {
    const state = this.stateOf(runner);
    state.closed = why;
    for (const ticket of state.tickets) if (ticket.depth >= from) ticket.over ??= why;
  }

  private tell(): void {
    try {
      this.onCommit();
    } catch {
      // It is committed. The poll finds it.
    }
  }

  private stateOf(runner: QueryRunner): Watched {
    const known = this.watched.get(runner);
    if (known) return known;
    const state: Watched = { enqueued: [], tickets: new Set(), closed: null };
    this.watched.set(runner, state);
    return state;
  }
}
