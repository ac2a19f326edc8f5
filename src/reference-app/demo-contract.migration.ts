import type { MigrationInterface, QueryRunner } from 'typeorm';

/** The states of the contracts part: each contract has each state once. */
export class CreateDemoContract1764547500000 implements MigrationInterface {
  readonly name = 'CreateDemoContract1764547500000';

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(
      `CREATE TABLE IF NOT EXISTS demo_contract (
        id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, contract_id VARCHAR(64) NOT NULL,
        sign_status VARCHAR(32) NOT NULL, sign_time DATETIME(3) NOT NULL, message_id BIGINT UNSIGNED NOT NULL,
        UNIQUE KEY demo_contract_state (contract_id, sign_status)
      ) ENGINE=InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin`,
    );
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP TABLE IF EXISTS demo_contract');
  }
}
