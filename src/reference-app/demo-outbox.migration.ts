import type { MigrationInterface, QueryRunner } from 'typeorm';

const tables = {
  im_conversation: 'conversation_id VARCHAR(64) NOT NULL PRIMARY KEY, last_seq BIGINT UNSIGNED NOT NULL',
  im_message: `id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, conversation_id VARCHAR(64) NOT NULL,
    seq_no BIGINT UNSIGNED NOT NULL, sender_id VARCHAR(64) NOT NULL, receiver_id VARCHAR(64) NOT NULL,
    content VARCHAR(4000) NOT NULL, created_at DATETIME(3) NOT NULL,
    UNIQUE KEY im_message_seq (conversation_id, seq_no)`,
  demo_reservation: `message_id VARCHAR(64) NOT NULL PRIMARY KEY, order_id VARCHAR(64) NOT NULL, reserved_at DATETIME(3) NOT NULL,
    KEY demo_reservation_order (order_id)`,
};

/** What the outbox parts write: chat messages, and reservations in the warehouse. */
export class CreateDemoOutbox1764547600000 implements MigrationInterface {
  readonly name = 'CreateDemoOutbox1764547600000';

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
