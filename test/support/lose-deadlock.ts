import type { DataSource, EntityManager } from 'typeorm';

/** Two rows of two tests' own, so that deadlocks of other transactions do not mix in. */
export interface DeadlockRows {
  readonly first: number;
  readonly second: number;
}

/** Tables that `loseDeadlock` needs. */
export const deadlockTables = [
  'CREATE TABLE contended (id INT PRIMARY KEY, n INT NOT NULL) ENGINE=InnoDB',
  'CREATE TABLE weight (id BIGINT AUTO_INCREMENT PRIMARY KEY, n INT NOT NULL) ENGINE=InnoDB',
];

/**
 * The transaction of `manager` loses a deadlock: the server ends the one with fewer changes, and the other one has many. Its
 * error is thrown.
 */
export async function loseDeadlock(dataSource: DataSource, manager: EntityManager, rows: DeadlockRows): Promise<void> {
  const { first, second } = rows;
  await dataSource.query('INSERT INTO contended VALUES (?, 0), (?, 0)', [first, second]);
  const other = dataSource.createQueryRunner();
  try {
    await other.startTransaction();
    await other.query(`INSERT INTO weight (n) VALUES ${Array.from({ length: 50 }, () => '(1)').join(', ')}`);
    await other.query('UPDATE contended SET n = 1 WHERE id = ?', [first]);
    await manager.query('UPDATE contended SET n = 1 WHERE id = ?', [second]);
    const blocked = other.query('UPDATE contended SET n = 1 WHERE id = ?', [second]);
    const ended = manager.query('UPDATE contended SET n = 1 WHERE id = ?', [first]).then(
      () => null,
      (error: unknown) => error,
    );
    await blocked;
    await other.rollbackTransaction();
    const error = await ended;
    if (error === null) throw new Error('the transaction did not lose the deadlock');
    throw error;
  } finally {
    await other.release();
  }
}
