import { type DataSource, MigrationExecutor } from 'typeorm';
import { withMigrationLock } from './migration-lock.js';

/**
 * Runs all pending migrations of the data source, one process at a time, and returns the names of those that ran.
 *
 * Use it where several instances migrate at their start. TypeORM's own `runMigrations()` is not made for that: it
 * creates its `migrations` table without a lock, so the second of two first starts fails. Here the second one waits and
 * finds nothing to do (an empty list). One connection of the pool is used for everything.
 *
 * Each DDL statement commits by itself: after a failure in the middle, run it again.
 *
 * @throws Error when another process has been migrating for more than five minutes, and whatever a migration throws.
 */
export async function runMigrationsExclusively(dataSource: DataSource): Promise<string[]> {
  const queryRunner = dataSource.createQueryRunner('master');
  try {
    return await withMigrationLock(queryRunner, async () => {
      const executor = new MigrationExecutor(dataSource, queryRunner);
      executor.transaction = dataSource.options.migrationsTransactionMode ?? 'all';
      const done = await executor.executePendingMigrations();
      return done.map((migration) => migration.name);
    });
  } finally {
    await queryRunner.release();
  }
}
