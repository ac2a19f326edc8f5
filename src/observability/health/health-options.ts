import { z } from 'zod';
import { count, type Duration, duration, parseOptions } from '../../config/index.js';

/** What readiness looks at. */
export const readinessReasons = [
  'draining',
  'database',
  'pool',
  'loop',
  'redis',
  'backlog',
  'oldestDue',
  'intake',
  'breaker',
] as const;
export type ReadinessReason = (typeof readinessReasons)[number];
/** down: 503, the load balancer takes the instance out. degraded: 200, a person should look. */
export type Severity = 'down' | 'degraded';

/** Options of `MailroomHealthModule.forRoot`; docs/observability.md describes each. */
export interface HealthOptions {
  readonly timeout?: Duration | undefined;
  readonly keepFor?: Duration | undefined;
  readonly maxPoolWait?: Duration | undefined;
  readonly maxLoopBlock?: Duration | undefined;
  readonly maxBacklog?: number | undefined;
  readonly maxOldestDue?: Duration | undefined;
  readonly minIntakeSuccess?: number | undefined;
  readonly severity?: Readonly<Partial<Record<ReadinessReason, Severity>>> | undefined;
}

const severity = (usual: Severity) =>
  z.enum(['down', 'degraded'], { error: "write 'down' or 'degraded'" }).default(usual);

export const healthSchema = z.strictObject({
  timeout: duration({ min: 10, max: 60_000 }).prefault('1s'),
  keepFor: duration({ min: 0, max: 60_000 }).prefault('1s'),
  maxPoolWait: duration({ min: 1, max: 60_000 }).prefault('1s'),
  maxLoopBlock: duration({ min: 50, max: 3_600_000 }).prefault('1s'),
  maxBacklog: count(1, 10_000).default(10_000),
  maxOldestDue: duration({ min: 1, max: 2_147_000_000 }).prefault('10m'),
  minIntakeSuccess: z
    .number({ error: 'write a share from 0 to 1' })
    .min(0, 'write a share from 0 to 1')
    .max(1, 'write a share from 0 to 1')
    .default(0.9),
  severity: z
    .strictObject({
      draining: severity('down'),
      database: severity('down'),
      pool: severity('down'),
      loop: severity('degraded'),
      redis: severity('degraded'),
      backlog: severity('degraded'),
      oldestDue: severity('degraded'),
      intake: severity('degraded'),
      breaker: severity('degraded'),
    })
    .prefault({}),
});

export type ResolvedHealthOptions = z.output<typeof healthSchema>;

/** @throws InvalidOptionsError */
export function resolveHealthOptions(given: HealthOptions): ResolvedHealthOptions {
  return parseOptions(healthSchema, given, 'health');
}
