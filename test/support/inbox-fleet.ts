import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import type { InboxOptions } from '../../src/index.js';
import { entityHash, laneOf } from '../../src/message/entity-hash.js';
import { type Child, startChild } from './child.js';
import type { TestDatabase } from './database.js';
import { waitUntil } from './wait-until.js';

const script = fileURLToPath(new URL('./fixtures/inbox-instance.ts', import.meta.url));

/** Starts one instance as a process and waits until it is ready. */
export async function startInstance(
  database: TestDatabase,
  name: string,
  inbox: Partial<InboxOptions>,
): Promise<Child> {
  const child = startChild(script, {
    env: { DATABASE_URL: database.url, INSTANCE: name, INBOX: JSON.stringify(inbox) },
  });
  await child.line('ready', 60_000);
  return child;
}

/** The tables that the handlers of the instances write. */
export async function createEffectTables(database: TestDatabase): Promise<void> {
  await database.query(
    'CREATE TABLE effect (id BIGINT AUTO_INCREMENT PRIMARY KEY, message_id BIGINT UNSIGNED NOT NULL, entity VARCHAR(64) NULL, instance VARCHAR(10) NOT NULL, KEY (message_id))',
  );
  await database.query(
    'CREATE TABLE turn (message_id BIGINT UNSIGNED NOT NULL, attempt INT NOT NULL, lane INT NOT NULL, instance VARCHAR(10) NOT NULL, started_at DATETIME(6) NOT NULL, ended_at DATETIME(6) NULL, PRIMARY KEY (message_id, attempt, instance), KEY (lane, started_at))',
  );
  await database.query('CREATE TABLE profile (id BIGINT AUTO_INCREMENT PRIMARY KEY, external_id VARCHAR(64) NOT NULL)');
}

/** Stores messages as intake would, many at once. */
export async function storeMessages(
  database: TestDatabase,
  bodies: readonly Record<string, unknown>[],
  lanes = 1,
): Promise<void> {
  for (let start = 0; start < bodies.length; start += 500) {
    const rows = bodies.slice(start, start + 500).map((body) => {
      const entity = typeof body.entity === 'string' ? Buffer.from(body.entity) : null;
      return [
        'test',
        body.type ?? 'work',
        body.id ?? randomUUID(),
        entity,
        entity && entityHash('test', entity),
        entity ? laneOf('test', entity, lanes) : 0,
        JSON.stringify(body),
      ];
    });
    await database.query(
      `INSERT INTO inbox_message (source, type, dedup_key, entity_key, open_entity, lane, body, status, next_attempt_at, received_at)
       VALUES ${rows.map(() => "(?, ?, ?, ?, ?, ?, ?, 'pending', UTC_TIMESTAMP(3), UTC_TIMESTAMP(3))").join(', ')}`,
      rows.flat(),
    );
  }
}

export async function statusCounts(database: TestDatabase): Promise<Record<string, number>> {
  const rows = await database.query<{ status: string; n: number }>(
    'SELECT status, COUNT(*) AS n FROM inbox_message GROUP BY status',
  );
  return Object.fromEntries(rows.map((row) => [row.status, row.n]));
}

/** Resolves when every message is success or failed. */
export async function allTerminal(database: TestDatabase, timeoutMs = 60_000): Promise<void> {
  await waitUntil(
    async () => {
      const { success: _success, failed: _failed, ...open } = await statusCounts(database);
      return Object.keys(open).length === 0;
    },
    { what: 'every message is terminal', timeoutMs, intervalMs: 100 },
  );
}

/** Successes without exactly one effect, and effects without a success: both must be empty. */
export async function wrongEffects(database: TestDatabase): Promise<unknown[]> {
  return database.query(
    `SELECT m.id, m.status, m.attempts, COUNT(e.id) AS effects FROM inbox_message m LEFT JOIN effect e ON e.message_id = m.id
      WHERE m.type <> 'far' GROUP BY m.id, m.status, m.attempts HAVING effects <> (m.status = 'success')`,
  );
}

/** Effects that came before one of an older message of their entity: must be empty. */
export async function outOfOrder(database: TestDatabase): Promise<unknown[]> {
  return database.query(
    `SELECT entity, earlier, message_id AS later
       FROM (SELECT entity, message_id, LAG(message_id) OVER (PARTITION BY entity ORDER BY id) AS earlier FROM effect) applied
      WHERE earlier >= message_id`,
  );
}

/** Handlers that ran at the same time in one lane, at two instances: must be empty. Needs `turn: true` in the bodies. */
export async function overlappingTurns(database: TestDatabase): Promise<unknown[]> {
  return database.query(
    `SELECT a.lane, a.message_id AS one, b.message_id AS other FROM turn a JOIN turn b
         ON b.lane = a.lane AND b.instance > a.instance AND b.started_at < a.ended_at AND a.started_at < b.ended_at`,
  );
}
