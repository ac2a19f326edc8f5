import { type Duration, parseDuration } from '../config/duration.js';
import { InvalidOptionsError } from '../errors/invalid-options.error.js';
import type { SignatureRefusal } from './signature-verifier.js';

/** In what a scheme counts its signed time since 1970: seconds or milliseconds. */
export type TimestampUnit = 's' | 'ms';

/** How far a signed time may be from now, before or after. Both ends belong to the window. */
export interface TimestampWindow {
  readonly toleranceMs: number;
  readonly unitMs: number;
}

/** Five minutes: what Standard Webhooks, Stripe and Slack use in their own libraries. */
export const defaultTolerance: Duration = '5m';

/** Digits without sign, point, exponent, white space or leading zeros: Number() alone would let 'abc' become NaN. */
const wholeNumber = /^(?:0|[1-9][0-9]{0,12})$/;

const switchedOff =
  "write how far the signed time may be from now, for example '5m'; this check cannot be switched off";

/**
 * The window for a tolerance.
 * @throws InvalidOptionsError for zero, a negative, null, NaN, infinity, text that is no duration, and for less than one
 *   unit of the timestamp: `300` means 300 ms here, and is a mistake where timestamps count seconds
 */
export function timestampWindow(tolerance: Duration, unit: TimestampUnit, path: string): TimestampWindow {
  if (tolerance === null || tolerance === undefined) throw new InvalidOptionsError(path, tolerance, switchedOff);
  if (typeof tolerance === 'number' && !(tolerance > 0 && Number.isFinite(tolerance))) {
    throw new InvalidOptionsError(path, tolerance, switchedOff);
  }
  const toleranceMs = parseDuration(tolerance, path);
  if (toleranceMs === 0) throw new InvalidOptionsError(path, tolerance, switchedOff);
  const unitMs = unit === 's' ? 1000 : 1;
  if (toleranceMs < unitMs) {
    throw new InvalidOptionsError(path, tolerance, "write at least '1s'; a plain number means milliseconds");
  }
  return { toleranceMs, unitMs };
}

/**
 * Why this timestamp is refused, or null when it lies in the window. Now is cut to the sender's unit first: a timestamp
 * in whole seconds would otherwise look up to a second older than it is.
 */
export function timestampRefusal(text: string, nowMs: number, window: TimestampWindow): SignatureRefusal | null {
  if (!wholeNumber.test(text)) return 'malformed';
  const distanceMs = Math.abs(Math.floor(nowMs / window.unitMs) - Number(text)) * window.unitMs;
  // Written so that a NaN clock refuses.
  return distanceMs <= window.toleranceMs ? null : 'outside-tolerance';
}
