/**
 * Takes out what is old: finished messages, and the records beside them. One instance at a time does it, under the lease
 * `chore:retention`, on a loop of its own, apart from recovery and consumption.
 *
 *   pass   lease -> job after job -> batch after batch, until nothing is old, the time of a pass is used up, or it stops
 *   batch  look (no lock) -> lock by primary key, skipping what others hold, and check again -> archive -> delete -> COMMIT
 *
 * Batches shrink when one is slow, and between two of them is a pause of twice the time that the last one took. Messages are
 * found by their status in the claim index, from where the last batch ended.
 *
 * Guarantees: only messages in the status and of the age named are taken, checked with their rows locked; nobody's lock is
 * waited for; a copy in the archive and the removal commit together. Two instances beside each other, as after a stall,
 * do no harm: each row is taken by one of them. After a crash the next pass goes on.
 *
 * A key that the sender repeats is known as long as its row is there: the retention of `success` is the dedup window.
 */
export { MessagePurge, type MessagePurgeRule } from './message-purge.store.js';
export type { PurgeJob, PurgeStep } from './purge-job.js';
export { RetentionModule } from './retention.module.js';
export { type PurgedTable, RetentionService, type RetentionTotals } from './retention.service.js';
export type { RetentionOptions } from './retention-options.js';
