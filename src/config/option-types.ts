import { z } from 'zod';
import { type Backoff, exponentialBackoff, listBackoff } from '../message/retry-policy.js';
import { type Duration, longestTimerMs, parseDuration } from './duration.js';

/** Building blocks of the option schemas. Each says in its message what to write instead. */

export function duration(range: { readonly min?: number; readonly max?: number } = {}) {
  const { min = 0, max = longestTimerMs } = range;
  return z.custom<Duration>().transform((value, context) => {
    try {
      const ms = parseDuration(value, 'value');
      if (ms >= min && ms <= max) return ms;
    } catch {
      context.addIssue({
        code: 'custom',
        input: value,
        message: "write milliseconds (30000) or a number with a unit ('30s', '5m')",
      });
      return z.NEVER;
    }
    context.addIssue({ code: 'custom', input: value, message: `write a duration between ${min} ms and ${max} ms` });
    return z.NEVER;
  });
}

export function count(min: number, max: number) {
  return z
    .number({ error: `write a whole number from ${min} to ${max}` })
    .int(`write a whole number from ${min} to ${max}`)
    .min(min, `write ${min} or more`)
    .max(max, `write ${max} or less`);
}

export const flag = z.boolean({ error: "write true or false (not the text 'true' or 'false')" });

export function fn<F extends (...args: never[]) => unknown>(what: string) {
  return z.custom<F>((value) => typeof value === 'function', { error: `write a function: ${what}` });
}

/** What users may write as a backoff. */
export type BackoffOption =
  | readonly Duration[]
  | { readonly initial: Duration; readonly multiplier: number; readonly max: Duration }
  | ((attempt: number) => Duration);

const longestBackoffMs = 30 * 86_400_000;
const delay = duration({ max: longestBackoffMs });
const expected =
  "write a list such as ['30s', '2m'], { initial: '1s', multiplier: 2, max: '5m' } or a function of the attempt number";

export const backoff = z.custom<BackoffOption>().transform((value, context): Backoff => {
  if (typeof value === 'function') return (attempt) => clampDelay(value(attempt));
  if (Array.isArray(value)) {
    const delays = z.array(delay).nonempty().safeParse(value);
    if (delays.success) return listBackoff(delays.data);
  } else {
    const shape = z
      .strictObject({ initial: delay, multiplier: z.number().min(1).max(100), max: delay })
      .safeParse(value);
    if (shape.success) return exponentialBackoff(shape.data.initial, shape.data.multiplier, shape.data.max);
  }
  context.addIssue({ code: 'custom', input: value, message: expected });
  return z.NEVER;
});

/** A user's function may return nonsense at run time, when nobody can be asked: the delay stays inside its limits. */
function clampDelay(value: Duration): number {
  try {
    return Math.min(longestBackoffMs, parseDuration(value, 'backoff'));
  } catch {
    return 60_000;
  }
}
