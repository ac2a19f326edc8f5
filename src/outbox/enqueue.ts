import type { EntityManager, QueryRunner } from 'typeorm';
import { type ControlPool, isStatementResult, saysInTransaction } from '../database/index.js';
import { TransactionRequiredError } from '../errors/transaction-required.error.js';
import type { CommitWatcher, EnqueueTicket } from './commit-watcher.js';
import type { MessageRow } from './message-row.js';
import { addUnitSql, lockUnitSql, type OrderKeysStore } from './order-keys.store.js';

/** Rows that one INSERT carries at most: further ones go with the next. */
const rowsPerInsert = 200;
/** Payload bytes that one INSERT carries at most; escaping doubles them. */
const bytesPerInsert = 1_048_576;

const columns = `message_id, topic, message_key, receiver, sequence, subject, headers, content_type, payload, status,
  next_attempt_at, open_unit, created_at, updated_at`;
const values = `(?, ?, ?, ?, ?, ?, CONVERT(? USING utf8mb4), ?, ?, 'pending', UTC_TIMESTAMP(3) + INTERVAL ? MICROSECOND, ?,
  UTC_TIMESTAMP(3), UTC_TIMESTAMP(3))`;

/** What enqueueing needs beside the caller's manager. */
export interface EnqueueParts {
  readonly watcher: Pick<CommitWatcher, 'enter' | 'leave'>;
  readonly pool: Pick<ControlPool, 'transaction'>;
  readonly orderKeys: OrderKeysStore;
}

/**
 * Inserts messages through the caller's own transaction: they exist if and only if it commits. One statement, more only
 * above 200 messages or 1 MiB of payload, and one more for each key with `strictOrder`.
 * @throws TransactionRequiredError when there is no transaction, when it is ending or lost to a deadlock, or when the
 *   server says that it is over, as after DDL. Then what was inserted is taken back.
 */
export async function insertMessages(
  manager: EntityManager,
  rows: readonly MessageRow[],
  { watcher, pool, orderKeys }: EnqueueParts,
): Promise<void> {
  const runner = openRunner(manager);
  const ticket = watcher.enter(runner);
  let enqueued = false;
  try {
    await lockUnits(runner, ticket, rows, orderKeys);
    for (const batch of batches(rows)) {
      const result = await send(runner, ticket, insertInto(batch), batch.flatMap(valuesOf));
      if (isStatementResult(result) && !saysInTransaction(result)) {
        await takeBack(pool, batch);
        throw new TransactionRequiredError(
          'OutboxService.enqueue: the server says that no transaction is open, although the manager does: a deadlock rolled it back and was swallowed, or a DDL statement committed it. Nothing was enqueued; let the first error end the transaction',
        );
      }
      enqueued = true;
    }
  } finally {
    watcher.leave(runner, ticket, enqueued);
  }
}

function openRunner(manager: EntityManager): QueryRunner {
  const runner = manager?.queryRunner;
  if (runner && !runner.isReleased && runner.isTransactionActive) return runner;
  throw new TransactionRequiredError(
    'OutboxService.enqueue: the manager has no open transaction. Call it inside dataSource.transaction(async (manager) => ...) with that manager, or with ctx.manager in a handler',
  );
}

/** One statement, unless the transaction ended meanwhile: after it the statement would commit by itself. */
function send(runner: QueryRunner, ticket: EnqueueTicket, sql: string, values: readonly unknown[]): Promise<unknown> {
  if (ticket.over !== null)
    throw new TransactionRequiredError(
      `OutboxService.enqueue: the transaction cannot take it any more: ${ticket.over}`,
    );
  return runner.query(sql, [...values]);
}

function insertInto(batch: readonly MessageRow[]): string {
  return `INSERT INTO outbox_message (${columns}) VALUES ${batch.map(() => values).join(', ')}`;
}

/** Transactions that enqueue for the same unit go one after the other: the row stays locked until the commit. */
async function lockUnits(
  runner: QueryRunner,
  ticket: EnqueueTicket,
  rows: readonly MessageRow[],
  orderKeys: OrderKeysStore,
): Promise<void> {
  const strict = new Set(rows.flatMap(({ strictOrder, unit }) => (strictOrder && unit !== null ? [unit] : [])));
  // In one order everywhere, so that two transactions with two keys each do not wait for each other.
  const units = [...strict].sort();
  if (units.length > 0) await orderKeys.ensure(units);
  for (const unit of units) {
    const locked = await send(runner, ticket, lockUnitSql, [unit]);
    if (isStatementResult(locked) && locked.affectedRows === 0) await send(runner, ticket, addUnitSql, [unit]);
  }
}

/**
 * They were committed by themselves, so they have to be deleted by themselves, over a connection of ours: the caller's may
 * serve somebody else by now. A relay that was quicker has sent them. Locks them by their unique message ids.
 */
async function takeBack(pool: EnqueueParts['pool'], batch: readonly MessageRow[]): Promise<void> {
  const ids = batch.map(({ messageId }) => messageId);
  const sql = `DELETE FROM outbox_message WHERE message_id IN (${ids.map(() => '?').join(', ')}) AND status = 'pending'`;
  await pool.transaction((tx) => tx.query(sql, ids));
}

function valuesOf(row: MessageRow): unknown[] {
  return [
    row.messageId,
    row.topic,
    row.key,
    row.receiver,
    row.sequence,
    row.subject,
    row.headers,
    row.contentType,
    row.payload,
    row.delayMs * 1000,
    row.unit,
  ];
}

function batches(rows: readonly MessageRow[]): MessageRow[][] {
  const all: MessageRow[][] = [];
  let bytes = 0;
  for (const row of rows) {
    const last = all.at(-1);
    const size = row.payload.length + (row.headers?.length ?? 0);
    if (last && last.length < rowsPerInsert && bytes + size <= bytesPerInsert) {
      last.push(row);
      bytes += size;
    } else {
      all.push([row]);
      bytes = size;
    }
  }
  return all;
}
