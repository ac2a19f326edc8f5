import { type DynamicModule, type FactoryProvider, Module, type ModuleMetadata, type Provider } from '@nestjs/common';
import { DiscoveryModule, DiscoveryService, HttpAdapterHost, MetadataScanner } from '@nestjs/core';
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
import { buildInbox, type InboxParts } from './build-inbox.js';
import { HandlerExplorer } from './handler-explorer.js';
import { InboxLifecycle } from './inbox.lifecycle.js';
import { InboxService } from './inbox.service.js';
import type { InboxOptions } from './inbox-options.js';
import { inboxProbe } from './inbox-probe.js';
import { inboxOptionsToken, inboxPartsToken } from './tokens.js';

const probeToken = Symbol('mailroom:inbox-probe');

/** Options of `InboxModule.forRootAsync`. */
export interface InboxAsyncOptions extends Pick<ModuleMetadata, 'imports'> {
  readonly inject?: FactoryProvider['inject'];
  /** Name of the TypeORM DataSource. Default: the unnamed one. */
  readonly dataSource?: string;
  // biome-ignore lint/suspicious/noExplicitAny: the parameters are what `inject` names
  readonly useFactory: (...args: any[]) => InboxOptions | Promise<InboxOptions>;
}

/**
 * Stores what third parties push before it is acknowledged, and handles it safely afterwards. Import it once, in the
 * root module; `InboxService` and `MailroomEvents` can be injected everywhere.
 */
@Module({})
// biome-ignore lint/complexity/noStaticOnlyClass: a Nest module is a class with static factories
export class InboxModule {
  static forRoot(options: InboxOptions): DynamicModule {
    // Checked later, with everything else; here JavaScript may have passed nothing at all.
    const { dataSource } = (options as InboxOptions | undefined) ?? {};
    return moduleOf({ provide: inboxOptionsToken, useValue: options }, [], dataSource);
  }

  static forRootAsync({ imports = [], inject = [], dataSource, useFactory }: InboxAsyncOptions): DynamicModule {
    return moduleOf({ provide: inboxOptionsToken, inject, useFactory }, imports, dataSource);
  }
}

function moduleOf(
  options: Provider,
  imports: NonNullable<ModuleMetadata['imports']>,
  dataSource: string | undefined,
): DynamicModule {
  return {
    module: InboxModule,
    global: true,
    imports: [...imports, DiscoveryModule, MailroomEventsModule, MailroomLifecycleModule],
    providers: [
      options,
      {
        provide: inboxPartsToken,
        // Timers are shown in @nestjs/schedule's registry where the application imports ScheduleModule.
        inject: [
          inboxOptionsToken,
          getDataSourceToken(dataSource),
          MailroomEvents,
          MailroomTracing,
          RetryWindows,
          { token: SchedulerRegistry, optional: true },
        ],
        useFactory: async (
          given: InboxOptions,
          source: DataSource,
          events: MailroomEvents,
          tracing: MailroomTracing,
          windows: RetryWindows,
          scheduler?: SchedulerRegistry,
        ) => {
          const parts = await buildInbox(given, { dataSource: source, events, tracing, scheduler });
          windows.note('inbox', retryWindowMs(parts.options, parts.options.handlerTimeout));
          return parts;
        },
      },
      { provide: InboxService, inject: [inboxPartsToken], useFactory: (parts: InboxParts) => parts.service },
      {
        provide: HandlerExplorer,
        inject: [DiscoveryService, MetadataScanner],
        useFactory: (discovery: DiscoveryService, scanner: MetadataScanner) => new HandlerExplorer(discovery, scanner),
      },
      {
        provide: InboxLifecycle,
        inject: [inboxPartsToken, HandlerExplorer, HttpAdapterHost, Shutdown, StartUp],
        useFactory: (
          parts: InboxParts,
          explorer: HandlerExplorer,
          adapters: HttpAdapterHost,
          shutdown: Shutdown,
          startUp: StartUp,
        ) => new InboxLifecycle(parts, explorer, adapters, shutdown, startUp),
      },
      {
        provide: probeToken,
        inject: [inboxPartsToken, InboxLifecycle, MailroomProbes],
        useFactory: (parts: InboxParts, lifecycle: InboxLifecycle, probes: MailroomProbes) =>
          probes.register(inboxProbe(parts, lifecycle)),
      },
    ],
    exports: [InboxService, MailroomEventsModule, inboxPartsToken, InboxLifecycle],
  };
}
