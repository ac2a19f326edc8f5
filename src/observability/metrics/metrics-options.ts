import type { Registry } from 'prom-client';
import { z } from 'zod';
import { count, type Duration, duration, parseOptions } from '../../config/index.js';

/** Options of `MailroomMetricsModule.forRoot`; docs/observability.md describes each. */
export interface MetricsOptions {
  readonly registry?: Registry | undefined;
  readonly defaultLabels?: Readonly<Record<string, string>> | undefined;
  readonly path?: string | false | undefined;
  readonly labelLimit?: number | undefined;
  readonly sampleFor?: Duration | undefined;
}

export const metricsSchema = z.strictObject({
  registry: z
    .custom<Registry>((value) => typeof (value as Registry | undefined)?.registerMetric === 'function', {
      error: 'write a Registry of prom-client',
    })
    .optional(),
  defaultLabels: z
    .record(z.string().regex(/^[a-zA-Z_][a-zA-Z0-9_]*$/, 'write a label name: letters, digits, _'), z.string())
    .default({}),
  path: z.union([z.literal(false), z.string().min(1, "write a path such as 'metrics', or false")]).default(false),
  labelLimit: count(1, 10_000).default(100),
  sampleFor: duration({ min: 0, max: 3_600_000 }).prefault('2s'),
});

export type ResolvedMetricsOptions = z.output<typeof metricsSchema>;

/** @throws InvalidOptionsError */
export function resolveMetricsOptions(given: MetricsOptions): ResolvedMetricsOptions {
  return parseOptions(metricsSchema, given, 'metrics');
}
