/**
 * Health: live says whether the loops turn, ready whether this instance should get pushes. What costs a query is asked once
 * at a time and kept for `keepFor`; each reason is a 503 or a 200 with `degraded`, by option. Start with
 * mailroom-health.indicator.ts.
 */
export { MailroomHealthModule } from './health.module.js';
export type { HealthOptions, ReadinessReason, Severity } from './health-options.js';
export { type HealthCheck, type HealthResult, MailroomHealthIndicator } from './mailroom-health.indicator.js';
