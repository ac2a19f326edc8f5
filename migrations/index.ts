/**
 * The database migrations of mailroom, for a TypeORM data source of type `mysql` or `mariadb`:
 *
 *     new DataSource({ type: 'mysql', url, migrations: [...mailroomMigrations(), ...yourOwn] })
 *
 * - run them with the TypeORM CLI in a deploy step, or
 * - with `runMigrationsExclusively(dataSource)` when the instances migrate at their start.
 *
 * A table that you have already becomes the inbox with `adoptTable`.
 *
 * A released migration is never edited. They import nothing from the library, so nothing can change under them.
 */
import type { MigrationInterface } from 'typeorm';
import { CreateMailroomTables1764547200000 } from './1764547200000-create-mailroom-tables.js';
import { SET_SCHEMA_VERSION, TABLES } from './1764547200000-tables.js';

export { type Adoption, type AdoptTableOptions, adoptTable } from './adopt/adopt-table.js';
export { type AdoptionState, adoptionSql, adoptionState } from './adopt/adoption-sql.js';
export { runMigrationsExclusively } from './run-migrations.js';
export { CreateMailroomTables1764547200000 };

/** Their statements, for a tool of your own. */
export function mailroomMigrationsSql(): string[] {
  return [...TABLES.map(({ create }) => create.trim()), SET_SCHEMA_VERSION.trim()];
}

/** All migrations of mailroom, oldest first, for the `migrations` option of a data source. */
export function mailroomMigrations(): (new () => MigrationInterface)[] {
  return [CreateMailroomTables1764547200000];
}
