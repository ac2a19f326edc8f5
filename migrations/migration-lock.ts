import type { QueryRunner } from 'typeorm';

/** How long a second process waits for the first one's migrations. Too small and a start fails while a big table is altered. */
const WAIT_SECONDS = 300;

// One name per database, within MySQL's 64 characters whatever the database is called. MySQL 9 has no MD5().
const LOCK_NAME = `CONCAT('mailroom_migration_', LEFT(SHA2(DATABASE(), 256), 40))`;
const TAKE = `SELECT GET_LOCK(${LOCK_NAME}, ?) AS taken`;
const RELEASE = `SELECT RELEASE_LOCK(${LOCK_NAME}) AS released`;

/**
 * Runs `work` while no other process migrates the same database, and frees the lock after it, also when it failed.
 *
 * Every DDL statement commits by itself, so no transaction can keep two migrating processes apart. The server's named
 * lock can: it belongs to the query runner's connection and ends with it. The same connection may take it again.
 *
 * @throws Error when another process holds the lock for longer than five minutes, or no database is selected.
 */
export async function withMigrationLock<T>(queryRunner: QueryRunner, work: () => Promise<T>): Promise<T> {
  await takeLock(queryRunner);
  let result: T;
  try {
    result = await work();
  } catch (error) {
    // The reason of the failure matters more than a lock that the connection gives up anyway when it ends.
    await queryRunner.query(RELEASE).catch(() => undefined);
    throw error;
  }
  await queryRunner.query(RELEASE);
  return result;
}

async function takeLock(queryRunner: QueryRunner): Promise<void> {
  const rows: readonly { taken: string | number | null }[] = await queryRunner.query(TAKE, [WAIT_SECONDS]);
  const taken = rows[0]?.taken ?? null;
  if (Number(taken) === 1) return;
  throw new Error(
    taken === null
      ? 'mailroom migrations: the server gave no lock. Name a database in the connection, for example mysql://user@host/app.'
      : `mailroom migrations: another process has been migrating this database for ${WAIT_SECONDS} s. ` +
          'Look for it with SHOW FULL PROCESSLIST, then run the migrations again.',
  );
}
