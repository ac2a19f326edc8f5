import { createHash } from 'node:crypto';
import type { EntityManager, QueryRunner } from 'typeorm';
import { isDuplicateKey } from '../database/index.js';
import { InvalidMessageError } from '../errors/invalid-message.error.js';
import { TransactionRequiredError } from '../errors/transaction-required.error.js';
import { type KnownIds, knownKey } from './known-ids.js';

/** What came of a message: done now, or known to have been done before. */
export type Processed<T> = { readonly done: true; readonly result: T } | { readonly done: false };

export interface ProcessOnceOptions {
  /** Asked before the table, by choice: see `processedCache()`. Default: the table decides alone. */
  readonly cache?: KnownIds | undefined;
}

const longestId = 255;
/** What a runner noted in the transaction that it is in: known to nobody else before its commit. */
const notedBy = new WeakMap<QueryRunner, Set<string>>();

/**
 * Runs `work` if the message was not processed by `consumer` before, in the caller's transaction: the note that it was
 * processed commits with what `work` writes, so both happen once, whatever is delivered twice and whoever ends in between.
 * Two deliveries at the same time: the second waits for the first one's transaction.
 *
 * @param messageId the sender's id of the message; longer than 255 bytes, its SHA-256 counts
 * @param consumer who processes: the same message may have several consumers. 1 to 128 printable ASCII characters
 * @param manager of the caller's open transaction
 * @throws TransactionRequiredError when the manager has no open transaction
 * @throws what `work` throws: let it end the transaction, and the note goes with it
 * @example
 * await dataSource.transaction((manager) =>
 *   processOnce(message.id, 'warehouse', manager, () => manager.insert(Reservation, reservation)),
 * );
 */
export async function processOnce<T>(
  messageId: string | Buffer,
  consumer: string,
  manager: EntityManager,
  work: () => T | Promise<T>,
  { cache }: ProcessOnceOptions = {},
): Promise<Processed<T>> {
  const id = idBytes(messageId);
  if (typeof consumer !== 'string' || !/^[\x21-\x7e]{1,128}$/.test(consumer))
    throw new InvalidMessageError('consumer', 'write 1 to 128 printable ASCII characters');
  const runner = manager?.queryRunner;
  if (!runner || runner.isReleased || !runner.isTransactionActive) {
    throw new TransactionRequiredError(
      'processOnce: the manager has no open transaction, so the note could not commit with what is written. Call it inside dataSource.transaction(async (manager) => ...) with that manager',
    );
  }
  const key = knownKey(consumer, id);
  if (cache && (await cache.find(key)) !== null) return { done: false };
  const noted = notedBy.get(runner) ?? new Set();
  notedBy.set(runner, noted);
  try {
    await runner.query(
      'INSERT INTO mailroom_processed (consumer, message_id, processed_at) VALUES (?, ?, UTC_TIMESTAMP(3))',
      [consumer, id],
    );
  } catch (error) {
    if (!isDuplicateKey(error, 'PRIMARY')) throw error;
    // Somebody else's note is committed, or it would not be seen; one of this transaction may still be rolled back.
    if (!noted.has(key)) cache?.remember(key, '1');
    return { done: false };
  }
  noted.add(key);
  return { done: true, result: await work() };
}

function idBytes(messageId: string | Buffer): Buffer {
  const bytes = Buffer.isBuffer(messageId) ? messageId : Buffer.from(typeof messageId === 'string' ? messageId : '');
  if (bytes.length === 0) throw new InvalidMessageError('messageId', 'write text or bytes that are not empty');
  return bytes.length > longestId ? createHash('sha256').update(bytes).digest() : bytes;
}
