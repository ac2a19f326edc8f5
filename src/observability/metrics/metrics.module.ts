import { type DynamicModule, Module } from '@nestjs/common';
import { MailroomEvents } from '../events.js';
import { MailroomEventsModule } from '../events.module.js';
import { MailroomProbes } from '../probes.js';
import { MailroomMetrics } from './mailroom-metrics.js';
import { metricsController } from './metrics.controller.js';
import { type MetricsOptions, resolveMetricsOptions } from './metrics-options.js';

/**
 * Metrics for Prometheus, in a registry of yours or the default one of prom-client, which your application brings.
 * Import it once beside `InboxModule` and `OutboxModule`. May be built twice in a process: the series are shared, and
 * the last application that closes takes them away.
 */
@Module({})
// biome-ignore lint/complexity/noStaticOnlyClass: a Nest module is a class with static factories
export class MailroomMetricsModule {
  /** @throws InvalidOptionsError at once for wrong options, at start-up when the registry cannot take the metrics */
  static forRoot(options: MetricsOptions = {}): DynamicModule {
    const resolved = resolveMetricsOptions(options);
    return {
      module: MailroomMetricsModule,
      global: true,
      imports: [MailroomEventsModule],
      controllers: resolved.path === false ? [] : [metricsController(resolved.path)],
      providers: [
        {
          provide: MailroomMetrics,
          inject: [MailroomEvents, MailroomProbes],
          // Loaded only where this module is imported: prom-client is an optional peer.
          useFactory: async (events: MailroomEvents, probes: MailroomProbes) =>
            new MailroomMetrics((await import('prom-client')).default, resolved, events, probes),
        },
      ],
      exports: [MailroomMetrics],
    };
  }
}
