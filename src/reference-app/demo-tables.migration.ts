import type { MigrationInterface, QueryRunner } from 'typeorm';

const tables = {
  demo_order: `order_id VARCHAR(64) NOT NULL PRIMARY KEY, status VARCHAR(16) NOT NULL, amount BIGINT NOT NULL DEFAULT 0,
    applied_events INT UNSIGNED NOT NULL DEFAULT 0, ignored_events INT UNSIGNED NOT NULL DEFAULT 0, updated_at DATETIME(3) NULL`,
  demo_github_event: 'type VARCHAR(128) NOT NULL PRIMARY KEY, events INT UNSIGNED NOT NULL DEFAULT 0',
};

/** The business tables of the reference application. */
export class CreateDemoTables1764547300000 implements MigrationInterface {
  readonly name = 'CreateDemoTables1764547300000';

  async up(runner: QueryRunner): Promise<void> {
    for (const [name, columns] of Object.entries(tables)) {
      await runner.query(
        `CREATE TABLE IF NOT EXISTS ${name} (${columns}) ENGINE=InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin`,
      );
    }
  }

  async down(runner: QueryRunner): Promise<void> {
    for (const name of Object.keys(tables)) await runner.query(`DROP TABLE IF EXISTS ${name}`);
  }
}
