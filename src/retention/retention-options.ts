import { z } from 'zod';
import { count, type Duration, duration, flag, parseOptions } from '../config/index.js';
import { type InboxTableOption, tableOption } from '../delivery/runs/index.js';
import { InvalidOptionsError } from '../errors/invalid-options.error.js';
import type { RetryWindows } from '../observability/index.js';

/** Options of `RetentionModule.forRoot`. An age of `false` keeps for ever. */
export interface RetentionOptions {
  /** Whether this instance does it. Default true. */
  readonly enabled?: boolean;
  /** Name of the TypeORM DataSource. Default: the unnamed one. */
  readonly dataSource?: string;
  /** Age of messages of the inbox that succeeded. It is also how long a repeated dedup key is known. Default 7d. */
  readonly success?: Duration | false;
  /** Age of messages of the outbox that were sent. Default 7d. */
  readonly sent?: Duration | false;
  /** Age of failed messages of the inbox. Default false: a person decides about them. */
  readonly failed?: Duration | false;
  /** Age of dead messages of the outbox. Default false. */
  readonly dead?: Duration | false;
  /** True: messages go to the archive table, with the reason `retention`. Default false: they are deleted. */
  readonly archive?: boolean;
  /** Age of rows of the archives, since they were archived. Default 90d. */
  readonly archives?: Duration | false;
  /** Age of ended replay runs. Default 90d. */
  readonly runs?: Duration | false;
  /** How long `processOnce` knows a message. Default 14d. */
  readonly processed?: Duration | false;
  /** Age of unused lock rows of `strictOrder`. Default 7d. */
  readonly orderKeys?: Duration | false;
  /** Pause between passes. Default 1m. */
  readonly interval?: Duration;
  /** Rows of a batch at most; slow batches are smaller. Default 500. */
  readonly batchSize?: number;
  /** The inbox's table, as in `inbox.table`, when it was adopted. */
  readonly inboxTable?: InboxTableOption;
  /** Connections of its own. Default 2. */
  readonly controlPool?: number;
}

const age = duration({ min: 1_000, max: 3_650 * 86_400_000 }).or(
  z.literal(false, "write a duration such as '7d', or false to keep for ever"),
);
const dayMs = 86_400_000;

const schema = z.strictObject({
  enabled: flag.default(true),
  dataSource: z.string().min(1).optional(),
  success: age.default(7 * dayMs),
  sent: age.default(7 * dayMs),
  failed: age.default(false),
  dead: age.default(false),
  archive: flag.default(false),
  archives: age.default(90 * dayMs),
  runs: age.default(90 * dayMs),
  processed: age.default(14 * dayMs),
  orderKeys: age.default(7 * dayMs),
  interval: duration({ min: 100, max: dayMs }).default(60_000),
  batchSize: count(1, 5_000).default(500),
  inboxTable: tableOption,
  controlPool: count(1, 100).default(2),
});

export type ResolvedRetentionOptions = z.output<typeof schema>;

/** @throws InvalidOptionsError with the option's path, the value and what to write instead */
export function resolveRetentionOptions(options: RetentionOptions): ResolvedRetentionOptions {
  return parseOptions(schema, options, 'retention');
}

/** @throws InvalidOptionsError where something would be forgotten while it may still come again */
export function checkWindows(options: ResolvedRetentionOptions, windows: RetryWindows): void {
  const shortest = [
    ['success', windows.of('inbox'), 'the inbox tries a message again'],
    ['sent', windows.of('outbox'), 'the outbox tries a message again'],
    ['processed', windows.of('receiving'), 'the outbox may send a message again'],
  ] as const;
  for (const [name, windowMs, why] of shortest) {
    const ms = options[name];
    if (ms !== false && ms < windowMs)
      throw new InvalidOptionsError(
        `retention.${name}`,
        ms,
        `write at least ${Math.ceil(windowMs / 1_000)}s: for so long ${why}`,
      );
  }
}
