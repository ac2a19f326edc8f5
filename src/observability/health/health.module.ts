import { type DynamicModule, Module } from '@nestjs/common';
import { MailroomEvents } from '../events.js';
import { MailroomEventsModule } from '../events.module.js';
import { MailroomProbes } from '../probes.js';
import { type HealthOptions, resolveHealthOptions } from './health-options.js';
import { MailroomHealthIndicator } from './mailroom-health.indicator.js';

/** Provides `MailroomHealthIndicator` everywhere. Import it once beside `InboxModule` and `OutboxModule`. */
@Module({})
// biome-ignore lint/complexity/noStaticOnlyClass: a Nest module is a class with static factories
export class MailroomHealthModule {
  /** @throws InvalidOptionsError */
  static forRoot(options: HealthOptions = {}): DynamicModule {
    const resolved = resolveHealthOptions(options);
    return {
      module: MailroomHealthModule,
      global: true,
      imports: [MailroomEventsModule],
      providers: [
        {
          provide: MailroomHealthIndicator,
          inject: [MailroomEvents, MailroomProbes],
          useFactory: (events: MailroomEvents, probes: MailroomProbes) =>
            new MailroomHealthIndicator(resolved, events, probes),
        },
      ],
      exports: [MailroomHealthIndicator],
    };
  }
}
