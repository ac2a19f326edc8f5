import { type DynamicModule, type FactoryProvider, Module, type ModuleMetadata, type Provider } from '@nestjs/common';
import { DiscoveryModule, DiscoveryService, MetadataScanner } from '@nestjs/core';
import { SchedulerRegistry } from '@nestjs/schedule';
import { getDataSourceToken } from '@nestjs/typeorm';
import type { DataSource } from 'typeorm';
import { retryWindowMs } from '../message/retry-window.js';
import {
  MailroomEvents,
  MailroomEventsModule,
  MailroomProbes,
  MailroomTracing,
  RetryWindows,
} from '../observability/index.js';
import { MailroomLifecycleModule, Shutdown, StartUp } from '../schedule/index.js';
import { buildOutbox, type OutboxParts } from './build-outbox.js';
import { OutboxLifecycle } from './outbox.lifecycle.js';
import { OutboxService } from './outbox.service.js';
import type { OutboxOptions } from './outbox-options.js';
import { outboxProbe } from './outbox-probe.js';

const optionsToken = Symbol('mailroom:outbox-options');
const partsToken = Symbol('mailroom:outbox-parts');
const probeToken = Symbol('mailroom:outbox-probe');

/** Options of `OutboxModule.forRootAsync`. */
export interface OutboxAsyncOptions extends Pick<ModuleMetadata, 'imports'> {
  readonly inject?: FactoryProvider['inject'];
  /** Name of the TypeORM DataSource. Default: the unnamed one. */
  readonly dataSource?: string;
  // biome-ignore lint/suspicious/noExplicitAny: the parameters are what `inject` names
  readonly useFactory: (...args: any[]) => OutboxOptions | Promise<OutboxOptions>;
}

/**
 * Sends messages if and only if the transaction that enqueued them committed. Import it once, in the root module;
 * `OutboxService` and `MailroomEvents` can be injected everywhere.
 */
@Module({})
// biome-ignore lint/complexity/noStaticOnlyClass: a Nest module is a class with static factories
export class OutboxModule {
  static forRoot(options: OutboxOptions): DynamicModule {
    // Checked later, with everything else; here JavaScript may have passed nothing at all.
    const { dataSource } = (options as OutboxOptions | undefined) ?? {};
    return moduleOf({ provide: optionsToken, useValue: options }, [], dataSource);
  }

  static forRootAsync({ imports = [], inject = [], dataSource, useFactory }: OutboxAsyncOptions): DynamicModule {
    return moduleOf({ provide: optionsToken, inject, useFactory }, imports, dataSource);
  }
}

function moduleOf(
  options: Provider,
  imports: NonNullable<ModuleMetadata['imports']>,
  dataSource: string | undefined,
): DynamicModule {
  return {
    module: OutboxModule,
    global: true,
    imports: [...imports, DiscoveryModule, MailroomEventsModule, MailroomLifecycleModule],
    providers: [
      options,
      {
        provide: partsToken,
        // Timers are shown in @nestjs/schedule's registry where the application imports ScheduleModule.
        inject: [
          optionsToken,
          getDataSourceToken(dataSource),
          MailroomEvents,
          MailroomTracing,
          RetryWindows,
          { token: SchedulerRegistry, optional: true },
        ],
        useFactory: (
          given: OutboxOptions,
          source: DataSource,
          events: MailroomEvents,
          tracing: MailroomTracing,
          windows: RetryWindows,
          scheduler?: SchedulerRegistry,
        ) => {
          const parts = buildOutbox(given, { dataSource: source, events, tracing, scheduler });
          const { sendTimeout, parkExpiry } = parts.options;
          const window = retryWindowMs(parts.options, sendTimeout);
          windows.note('outbox', window);
          // Sent once without an answer, then parked: it may be sent again when its receiver comes back.
          windows.note('receiving', window + parkExpiry);
          return parts;
        },
      },
      { provide: OutboxService, inject: [partsToken], useFactory: (parts: OutboxParts) => parts.service },
      {
        provide: OutboxLifecycle,
        inject: [partsToken, DiscoveryService, MetadataScanner, Shutdown, StartUp],
        useFactory: (
          parts: OutboxParts,
          discovery: DiscoveryService,
          scanner: MetadataScanner,
          shutdown: Shutdown,
          startUp: StartUp,
        ) => new OutboxLifecycle(parts, discovery, scanner, shutdown, startUp),
      },
      {
        provide: probeToken,
        inject: [partsToken, OutboxLifecycle, MailroomProbes],
        useFactory: (parts: OutboxParts, lifecycle: OutboxLifecycle, probes: MailroomProbes) =>
          probes.register(outboxProbe(parts, lifecycle)),
      },
    ],
    exports: [OutboxService, MailroomEventsModule],
  };
}
