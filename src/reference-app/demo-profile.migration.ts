import type { MigrationInterface, QueryRunner } from 'typeorm';

/** The profiles of the CRM part. The key on `external_id` is not unique, as in the systems that this part stands for. */
export class CreateDemoProfile1764547400000 implements MigrationInterface {
  readonly name = 'CreateDemoProfile1764547400000';

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(
      `CREATE TABLE IF NOT EXISTS demo_profile (
        id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, external_id VARCHAR(64) NOT NULL, name VARCHAR(200) NOT NULL,
        phone VARCHAR(32) NOT NULL, merged INT UNSIGNED NOT NULL DEFAULT 0, KEY demo_profile_external (external_id)
      ) ENGINE=InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin`,
    );
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP TABLE IF EXISTS demo_profile');
  }
}
