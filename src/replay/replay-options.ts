import type { Type } from '@nestjs/common';
import { z } from 'zod';
import { count, type Duration, duration, flag, fn, parseOptions } from '../config/index.js';
import { type InboxTableOption, tableOption } from '../delivery/runs/index.js';
import { InvalidOptionsError } from '../errors/invalid-options.error.js';
import { maskDigits } from '../observability/logging/mask-digits.js';

/** Options of `ReplayModule.forRoot`. */
export interface ReplayOptions {
  /** Whether this instance works runs off. They can be started either way. Default true. */
  readonly enabled?: boolean;
  /** Name of the TypeORM DataSource; with `forRootAsync` it stands beside `useFactory`. Default: the unnamed one. */
  readonly dataSource?: string;
  /** Messages per second of a run that does not say. Default 10. */
  readonly ratePerSecond?: number;
  /** A message that was replayed this often is refused; false: no limit. Default 10. */
  readonly maxReplays?: number | false;
  /** How often runs that nobody works on are looked for: one query per box. Default 5s. */
  readonly pollInterval?: Duration;
  /** How long a run stays with an instance that gives no sign, before another goes on with it. Default 30s. */
  readonly runClaim?: Duration;
  /** Whether a person may put a message with another body in the place of one that ended. Default false. */
  readonly edit?: boolean;
  /** What a body looks like to a person: gets the text, returns what may be shown. Default: long numbers are masked. */
  readonly redact?: (body: string, message: { readonly source: string; readonly type: string }) => string;
  /** The inbox's table, as in `inbox.table`, when it was adopted. */
  readonly inboxTable?: InboxTableOption;
  /** Mounts the controller; without it there is none. With `forRootAsync` it stands beside `useFactory`. */
  readonly http?: ReplayHttpOptions;
  readonly controlPool?: number;
}

export interface ReplayHttpOptions {
  /** Such as 'admin/replay'. */
  readonly path: string;
  /** Nest guard of every route. There is no default: without one the application does not start. */
  readonly guard: Type;
  /** Who asks, for the record. Default: 'http'. */
  readonly actor?: (request: unknown) => string;
}

const rateWords = 'write messages per second from 0.01 to 10000';

export const rate = z.number({ error: rateWords }).min(0.01, rateWords).max(10_000, rateWords);

const schema = z.strictObject({
  enabled: flag.default(true),
  dataSource: z.string().min(1).optional(),
  ratePerSecond: rate.default(10),
  maxReplays: count(1, 1_000_000).or(z.literal(false, 'write a number, or false for no limit')).default(10),
  pollInterval: duration({ min: 50, max: 3_600_000 }).default(5_000),
  runClaim: duration({ min: 500, max: 3_600_000 }).default(30_000),
  edit: flag.default(false),
  redact: fn<NonNullable<ReplayOptions['redact']>>('what of a body may be shown').default(() => maskDigits),
  inboxTable: tableOption,
  http: z.custom<ReplayHttpOptions>().optional(),
  controlPool: count(1, 100).default(2),
});

export type ResolvedReplayOptions = z.output<typeof schema>;

/** @throws InvalidOptionsError with the option's path, the value and what to write instead */
export function resolveReplayOptions(options: ReplayOptions): ResolvedReplayOptions {
  const resolved = parseOptions(schema, options, 'replay');
  if (resolved.http !== undefined) checkHttp(resolved.http);
  return resolved;
}

/** A controller without a guard would let anybody send messages again. */
export function checkHttp(http: ReplayHttpOptions): void {
  const { path, guard, actor } = (http ?? {}) as Partial<ReplayHttpOptions>;
  if (typeof path !== 'string' || !/^[A-Za-z0-9/_-]{1,200}$/.test(path))
    throw new InvalidOptionsError('replay.http.path', path, "write a path such as 'admin/replay'");
  if (typeof guard !== 'function') {
    throw new InvalidOptionsError(
      'replay.http.guard',
      guard,
      'write the class of a Nest guard: these routes send messages again, so nobody may call them by default',
    );
  }
  if (actor !== undefined && typeof actor !== 'function')
    throw new InvalidOptionsError('replay.http.actor', actor, 'write a function of the request that returns a name');
}
