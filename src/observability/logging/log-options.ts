import { z } from 'zod';
import { type Duration, duration, fn, parseOptions } from '../../config/index.js';
import { redactText } from './redact-text.js';

/** Options of `MailroomLogModule.forRoot`; docs/observability.md describes each. */
export interface LogOptions {
  readonly sampleRate?: number | undefined;
  readonly slow?: Duration | undefined;
  readonly redact?: ((text: string) => string) | false | undefined;
}

export const logSchema = z.strictObject({
  sampleRate: z
    .number({ error: 'write a number from 0 to 1, such as 0.01 for 1 %' })
    .min(0, 'write 0 or more')
    .max(1, 'write 1 or less, such as 0.01 for 1 %')
    .default(0.01),
  slow: duration({ min: 0, max: 86_400_000 }).default(1_000),
  redact: z
    .union([z.literal(false), fn<(text: string) => string>('what of a key may be shown')], {
      error: 'write a function from text to text, or false',
    })
    .default(() => redactText),
});

export type ResolvedLogOptions = z.output<typeof logSchema>;

/** @throws InvalidOptionsError */
export function resolveLogOptions(given: LogOptions): ResolvedLogOptions {
  return parseOptions(logSchema, given, 'log');
}
