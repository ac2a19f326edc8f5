import { z } from 'zod';
import { count, type Duration, duration } from '../config/index.js';
import { InvalidOptionsError } from '../errors/invalid-options.error.js';
import type { BreakerRules } from './breaker.js';

/** When messages of a (source, type) are not handled for a while, because too many of the recent attempts failed. */
export interface BreakerOptions {
  /** Attempts of this long decide. Default 1m. */
  readonly window?: Duration;
  /** Share of failed attempts, 0.01 to 1, from which on it opens. Default 0.5. */
  readonly failureRate?: number;
  /** Fewer attempts in the window decide nothing. Default 20. */
  readonly minimumCalls?: number;
  /** How long it stays open before one message may try. Default 30s. */
  readonly openFor?: Duration;
  /** Attempts that take longer are slow. Default: none is. */
  readonly slowCall?: Duration;
  /** Share of slow attempts, 0.01 to 1, from which on it opens; needs slowCall. Default 0.5. */
  readonly slowRate?: number;
}

const rateWords = 'write a share from 0.01 to 1, such as 0.5';
const share = z.number({ error: rateWords }).min(0.01, rateWords).max(1, rateWords);

export const breakerSchema = z.strictObject({
  window: duration({ min: 1_000, max: 3_600_000 }).default(60_000),
  failureRate: share.default(0.5),
  minimumCalls: count(1, 100_000).default(20),
  openFor: duration({ min: 100, max: 3_600_000 }).default(30_000),
  slowCall: duration({ min: 1, max: 3_600_000 }).optional(),
  slowRate: share.optional(),
});

/**
 * @param path of the option, for errors
 * @throws InvalidOptionsError for slowRate without slowCall
 */
export function breakerRules(
  options: z.output<typeof breakerSchema> | false,
  path = 'inbox.breaker',
): BreakerRules | null {
  if (options === false) return null;
  const { window, failureRate, minimumCalls, openFor, slowCall, slowRate } = options;
  if (slowRate !== undefined && slowCall === undefined) {
    throw new InvalidOptionsError(
      `${path}.slowRate`,
      slowRate,
      'write slowCall beside it, the duration from which on an attempt is slow, or leave it out',
    );
  }
  return {
    windowMs: window,
    failureRate,
    minimumCalls,
    openForMs: openFor,
    slowCallMs: slowCall ?? null,
    slowRate: slowRate ?? 0.5,
  };
}
