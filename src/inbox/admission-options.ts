import { z } from 'zod';
import { count, type Duration, duration } from '../config/index.js';
import { InvalidOptionsError } from '../errors/invalid-options.error.js';
import type { SourceRules } from '../pressure/index.js';

/** When pushes are not taken in, of the module (`intake`) or of one source, which goes first. */
export interface AdmissionLimits {
  /** Pushes in work at the same time. */
  readonly maxInFlight?: number | undefined;
  /** Pushes per second and source on average; more are answered 429. False: no limit. Default: none. */
  readonly ratePerSecond?: number | false | undefined;
  /** Pushes that a source may send at once after a quiet time. Default: those of one second, at least 1. */
  readonly rateBurst?: number | undefined;
  /** Messages that wait in the table; from so many on pushes are answered 503. False: no limit. Default: none. */
  readonly maxBacklog?: number | false | undefined;
  /** How long the oldest due message may have been due; from then on pushes are answered 503. False: no limit. Default: none. */
  readonly maxBacklogAge?: Duration | false | undefined;
}

const rateWords = 'write pushes per second from 0.01 to 1000000, or false';
const orFalse = z.literal(false, 'write false for no limit');

/** The schemas of the limits; every one may be left out. */
export const limitSchemas = {
  maxInFlight: count(1, 1_000_000).optional(),
  ratePerSecond: z.number({ error: rateWords }).min(0.01, rateWords).max(1_000_000, rateWords).or(orFalse).optional(),
  rateBurst: count(1, 1_000_000).optional(),
  maxBacklog: count(1, 1_000_000).or(orFalse).optional(),
  maxBacklogAge: duration({ min: 1_000, max: 2_147_000_000 }).or(orFalse).optional(),
};

interface ResolvedLimits {
  readonly ratePerSecond?: number | false | undefined;
  readonly rateBurst?: number | undefined;
  readonly maxBacklog?: number | false | undefined;
  readonly maxBacklogAge?: number | false | undefined;
}

/**
 * What each source may do, by name.
 * @throws InvalidOptionsError for rateBurst without a rate
 */
export function sourceRules(
  sources: Readonly<Record<string, ResolvedLimits>>,
  intake: ResolvedLimits,
): ReadonlyMap<string, SourceRules> {
  refuseLoneBurst('inbox.intake', intake, intake.ratePerSecond);
  return new Map(
    Object.entries(sources).map(([name, source]) => {
      const perSecond = source.ratePerSecond ?? intake.ratePerSecond ?? false;
      refuseLoneBurst(`inbox.sources.${name}`, source, perSecond);
      const burst = source.rateBurst ?? (source.ratePerSecond === undefined ? intake.rateBurst : undefined);
      return [
        name,
        {
          rate: perSecond === false ? null : { perSecond, burst: burst ?? Math.max(1, Math.ceil(perSecond)) },
          backlog: {
            messages: limitOf(source.maxBacklog ?? intake.maxBacklog),
            ageMs: limitOf(source.maxBacklogAge ?? intake.maxBacklogAge),
          },
        },
      ];
    }),
  );
}

function limitOf(value: number | false | undefined): number | null {
  return value === undefined || value === false ? null : value;
}

function refuseLoneBurst(path: string, { rateBurst }: ResolvedLimits, rate: number | false | undefined): void {
  if (rateBurst === undefined || (rate !== undefined && rate !== false)) return;
  throw new InvalidOptionsError(`${path}.rateBurst`, rateBurst, 'write ratePerSecond beside it, or leave it out');
}
