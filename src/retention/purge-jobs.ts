import type { ControlPool } from '../database/index.js';
import { inboxRunBoxOf, outboxRunBox, tableOf } from '../delivery/runs/index.js';
import { MessagePurge } from './message-purge.store.js';
import type { PurgeJob } from './purge-job.js';
import { ArchivePurge, OrderKeyPurge, ProcessedPurge, RunPurge } from './record-purges.store.js';
import type { ResolvedRetentionOptions } from './retention-options.js';

/** What the options ask for; an age of false leaves its job out. */
export function purgeJobs(pool: ControlPool, options: ResolvedRetentionOptions): readonly PurgeJob[] {
  const { archive } = options;
  const inboxRunBox = inboxRunBoxOf(tableOf(options.inboxTable));
  const messages = [
    { box: inboxRunBox, status: 'success', age: options.success },
    { box: outboxRunBox, status: 'sent', age: options.sent },
    { box: inboxRunBox, status: 'failed', age: options.failed },
    { box: outboxRunBox, status: 'dead', age: options.dead },
  ] as const;
  return [
    ...messages.flatMap(({ box, status, age }) =>
      age === false ? [] : [new MessagePurge(pool, box, { status, olderThanMs: age, archive })],
    ),
    ...withAge(options.archives, (ms) => [new ArchivePurge(pool, 'inbox', ms), new ArchivePurge(pool, 'outbox', ms)]),
    ...withAge(options.runs, (ms) => [new RunPurge(pool, ms)]),
    ...withAge(options.processed, (ms) => [new ProcessedPurge(pool, ms)]),
    ...withAge(options.orderKeys, (ms) => [new OrderKeyPurge(pool, ms)]),
  ];
}

function withAge(age: number | false, make: (ms: number) => readonly PurgeJob[]): readonly PurgeJob[] {
  return age === false ? [] : make(age);
}
