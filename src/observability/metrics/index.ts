/**
 * Metrics: counters and histograms are subscribers of `MailroomEvents`; gauges are read by one sampler when somebody
 * scrapes, from counts that stop at 10,000. Series are bounded by `labelLimit`. Nothing here has a timer.
 * Start with metric-definitions.ts, then count-events.ts.
 */
export { MailroomMetrics } from './mailroom-metrics.js';
export { MailroomMetricsModule } from './metrics.module.js';
export type { MetricsOptions } from './metrics-options.js';
