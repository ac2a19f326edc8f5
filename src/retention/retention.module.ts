import { type DynamicModule, Module, type Provider } from '@nestjs/common';
import { SchedulerRegistry } from '@nestjs/schedule';
import { getDataSourceToken } from '@nestjs/typeorm';
import type { DataSource } from 'typeorm';
import { ControlPool } from '../database/index.js';
import { LeaseKeeper, LeaseRowStore, newInstanceId, openGate } from '../lease/index.js';
import { MailroomEvents, MailroomEventsModule, RetryWindows } from '../observability/index.js';
import { MailroomLifecycleModule, Shutdown, StartUp } from '../schedule/index.js';
import { purgeJobs } from './purge-jobs.js';
import { RetentionLifecycle } from './retention.lifecycle.js';
import { RetentionService } from './retention.service.js';
import { type ResolvedRetentionOptions, type RetentionOptions, resolveRetentionOptions } from './retention-options.js';

interface RetentionParts {
  readonly service: RetentionService;
  readonly lifecycle: RetentionLifecycle;
}

const partsToken = Symbol('mailroom:retention-parts');
/** Renewed while a pass goes on. After a crash another instance goes on after this long. */
const leaseTimes = { ttlMs: 30_000, renewMs: 10_000 };

/**
 * Takes out old messages and records, of the inbox and the outbox, whether or not their modules are in this application.
 * Import it once, in the root module; of several instances one at a time does it.
 */
@Module({})
// biome-ignore lint/complexity/noStaticOnlyClass: a Nest module is a class with static factories
export class RetentionModule {
  /**
   * @throws InvalidOptionsError at once; at the start-up for an age that is shorter than the inbox or the outbox of this
   * application try a message again
   */
  static forRoot(options: RetentionOptions = {}): DynamicModule {
    const resolved = resolveRetentionOptions(options);
    return {
      module: RetentionModule,
      global: true,
      imports: [MailroomEventsModule, MailroomLifecycleModule],
      providers: [
        partsProvider(resolved),
        { provide: RetentionService, inject: [partsToken], useFactory: ({ service }: RetentionParts) => service },
        { provide: RetentionLifecycle, inject: [partsToken], useFactory: ({ lifecycle }: RetentionParts) => lifecycle },
      ],
      exports: [RetentionService, MailroomEventsModule],
    };
  }
}

function partsProvider(options: ResolvedRetentionOptions): Provider {
  return {
    provide: partsToken,
    inject: [
      getDataSourceToken(options.dataSource),
      MailroomEvents,
      RetryWindows,
      Shutdown,
      StartUp,
      { token: SchedulerRegistry, optional: true },
    ],
    useFactory: (
      dataSource: DataSource,
      events: MailroomEvents,
      windows: RetryWindows,
      shutdown: Shutdown,
      startUp: StartUp,
      scheduler?: SchedulerRegistry,
    ): RetentionParts => {
      const pool = new ControlPool(dataSource, { size: options.controlPool });
      const keeper = new LeaseKeeper(openGate, new LeaseRowStore(pool), newInstanceId(), leaseTimes);
      const service = new RetentionService(purgeJobs(pool, options), keeper, events, options.batchSize);
      return {
        service,
        lifecycle: new RetentionLifecycle(options, service, windows, pool, shutdown, startUp, scheduler),
      };
    },
  };
}
