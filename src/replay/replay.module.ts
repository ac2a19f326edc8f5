import { type DynamicModule, type FactoryProvider, Module, type ModuleMetadata, type Provider } from '@nestjs/common';
import { SchedulerRegistry } from '@nestjs/schedule';
import { getDataSourceToken } from '@nestjs/typeorm';
import type { DataSource } from 'typeorm';
import { ControlPool } from '../database/index.js';
import { InvalidOptionsError } from '../errors/invalid-options.error.js';
import { newInstanceId } from '../lease/index.js';
import { MailroomLifecycleModule, Shutdown, StartUp } from '../schedule/index.js';
import { replayController } from './replay.controller.js';
import { ReplayLifecycle } from './replay.lifecycle.js';
import { ReplayService } from './replay.service.js';
import {
  checkHttp,
  type ReplayHttpOptions,
  type ReplayOptions,
  type ResolvedReplayOptions,
  resolveReplayOptions,
} from './replay-options.js';
import { ReplayRunner } from './replay-runner.js';

/** Options of `ReplayModule.forRootAsync`. Routes are mounted before a factory runs, so `http` stands beside it. */
export interface ReplayAsyncOptions extends Pick<ModuleMetadata, 'imports'> {
  readonly inject?: FactoryProvider['inject'];
  /** Name of the TypeORM DataSource. Default: the unnamed one. */
  readonly dataSource?: string;
  /** Mounts the controller; without it there is none. */
  readonly http?: ReplayHttpOptions;
  readonly useFactory: (
    // biome-ignore lint/suspicious/noExplicitAny: the parameters are what `inject` names
    ...args: any[]
  ) => Omit<ReplayOptions, 'http' | 'dataSource'> | Promise<Omit<ReplayOptions, 'http' | 'dataSource'>>;
}

interface ReplayParts {
  readonly service: ReplayService;
  readonly lifecycle: ReplayLifecycle;
}

const optionsToken = Symbol('mailroom:replay-options');
const partsToken = Symbol('mailroom:replay-parts');

/**
 * See what failed, choose, run it again, with a record. Works on the tables of the inbox and the outbox, whether or not
 * their modules are in this application. Import it once, in the root module.
 */
@Module({})
// biome-ignore lint/complexity/noStaticOnlyClass: a Nest module is a class with static factories
export class ReplayModule {
  /** @throws InvalidOptionsError at once: a controller without a guard is never mounted */
  static forRoot(options: ReplayOptions = {}): DynamicModule {
    const resolved = resolveReplayOptions(options);
    return moduleOf({ provide: optionsToken, useValue: resolved }, [], resolved.dataSource, resolved.http);
  }

  /** @throws InvalidOptionsError at once for `http`, at start-up for what the factory returns */
  static forRootAsync({ imports = [], inject = [], dataSource, http, useFactory }: ReplayAsyncOptions): DynamicModule {
    if (http !== undefined) checkHttp(http);
    const options: Provider = {
      provide: optionsToken,
      inject,
      useFactory: async (...args: unknown[]) => resolveReplayOptions(withoutPlaced(await useFactory(...args))),
    };
    return moduleOf(options, imports, dataSource, http);
  }
}

/** A factory runs too late for these; left in silence, the routes would be missing. */
function withoutPlaced(options: ReplayOptions): ReplayOptions {
  for (const name of ['http', 'dataSource'] as const)
    if (options?.[name] !== undefined)
      throw new InvalidOptionsError(`replay.${name}`, options[name], 'with forRootAsync write it beside useFactory');
  return options;
}

function moduleOf(
  options: Provider,
  imports: NonNullable<ModuleMetadata['imports']>,
  dataSource: string | undefined,
  http: ReplayHttpOptions | undefined,
): DynamicModule {
  return {
    module: ReplayModule,
    global: true,
    imports: [...imports, MailroomLifecycleModule],
    controllers: http ? [replayController(http)] : [],
    providers: [
      options,
      partsProvider(dataSource),
      { provide: ReplayService, inject: [partsToken], useFactory: ({ service }: ReplayParts) => service },
      { provide: ReplayLifecycle, inject: [partsToken], useFactory: ({ lifecycle }: ReplayParts) => lifecycle },
    ],
    exports: [ReplayService],
  };
}

function partsProvider(dataSource: string | undefined): Provider {
  return {
    provide: partsToken,
    inject: [
      optionsToken,
      getDataSourceToken(dataSource),
      Shutdown,
      StartUp,
      { token: SchedulerRegistry, optional: true },
    ],
    useFactory: (
      options: ResolvedReplayOptions,
      source: DataSource,
      shutdown: Shutdown,
      startUp: StartUp,
      scheduler?: SchedulerRegistry,
    ): ReplayParts => {
      const pool = new ControlPool(source, { size: options.controlPool });
      const runner: ReplayRunner = new ReplayRunner(
        () => service.runs,
        newInstanceId(),
        options.runClaim,
        options.pollInterval,
        scheduler,
      );
      const service: ReplayService = new ReplayService(pool, options, () => options.enabled && runner.wake());
      return { service, lifecycle: new ReplayLifecycle(options.enabled, runner, pool, shutdown, startUp) };
    },
  };
}
