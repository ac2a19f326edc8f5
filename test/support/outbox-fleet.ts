import { fileURLToPath } from 'node:url';
import type { OutboxOptions } from '../../src/index.js';
import { type Child, startChild } from './child.js';
import type { TestDatabase } from './database.js';
import { outboxCounts } from './outbox-app.js';
import { waitUntil } from './wait-until.js';

const script = fileURLToPath(new URL('./fixtures/outbox-instance.ts', import.meta.url));

export interface RelayOptions {
  readonly outbox?: Partial<OutboxOptions>;
  /** Time that a send takes after the message has arrived. */
  readonly sendMs?: number;
  /** Messages of one send. */
  readonly batch?: number;
}

/** Starts one relay as a process and waits until it is ready. */
export async function startRelay(database: TestDatabase, name: string, options: RelayOptions = {}): Promise<Child> {
  const child = startChild(script, {
    env: {
      DATABASE_URL: database.url,
      INSTANCE: name,
      OUTBOX: JSON.stringify(options.outbox ?? {}),
      SEND_MS: String(options.sendMs ?? 0),
      BATCH: String(options.batch ?? 1),
    },
  });
  await child.line('ready', 60_000);
  return child;
}

/** The receiving side of all relays: a row for everything that arrives, in the order of arrival. */
export async function createReceived(database: TestDatabase): Promise<void> {
  await database.query(
    'CREATE TABLE received (id BIGINT AUTO_INCREMENT PRIMARY KEY, message_id VARCHAR(64) NOT NULL, order_key VARCHAR(64) NULL, instance VARCHAR(10) NOT NULL, KEY (message_id)) ENGINE=InnoDB',
  );
}

/** Enqueued and not sent, and sent and not enqueued: both must be empty. */
export async function wronglySent(database: TestDatabase): Promise<unknown[]> {
  return database.query(
    `SELECT m.message_id, m.status, 'never arrived' AS wrong FROM outbox_message m LEFT JOIN received r ON r.message_id = m.message_id WHERE r.id IS NULL
     UNION ALL
     SELECT r.message_id, 'none', 'never committed' FROM received r LEFT JOIN outbox_message m ON m.message_id = r.message_id WHERE m.id IS NULL`,
  );
}

/** First arrivals that came before that of an older message of their key: must be empty. */
export async function outOfTurn(database: TestDatabase): Promise<unknown[]> {
  return database.query(
    `SELECT order_key, earlier, id AS later
       FROM (SELECT m.id, m.message_key AS order_key, LAG(m.id) OVER (PARTITION BY m.message_key ORDER BY f.first) AS earlier
               FROM outbox_message m
               JOIN (SELECT message_id, MIN(id) AS first FROM received GROUP BY message_id) f ON f.message_id = m.message_id
              WHERE m.message_key IS NOT NULL) arrived
      WHERE earlier >= id`,
  );
}

/** Arrivals beyond the first of each message. */
export async function repetitions(database: TestDatabase): Promise<number> {
  const [row] = await database.query<{ n: number }>('SELECT COUNT(*) - COUNT(DISTINCT message_id) AS n FROM received');
  return Number(row?.n);
}

/** Resolves when every message is sent. */
export async function everythingSent(database: TestDatabase, timeoutMs = 60_000): Promise<void> {
  await waitUntil(
    async () => {
      const { sent: _sent, ...open } = await outboxCounts(database);
      return Object.keys(open).length === 0;
    },
    { what: 'every message is sent', timeoutMs, intervalMs: 100 },
  );
}
