import { type DynamicModule, Module, type Provider } from '@nestjs/common';
import { SchedulerRegistry } from '@nestjs/schedule';
import { getDataSourceToken } from '@nestjs/typeorm';
import type { DataSource } from 'typeorm';
import { ControlPool } from '../database/index.js';
import { newInstanceId } from '../lease/index.js';
import { replayController } from './replay.controller.js';
import { ReplayLifecycle } from './replay.lifecycle.js';
import { ReplayService } from './replay.service.js';
import { type ReplayOptions, type ResolvedReplayOptions, resolveReplayOptions } from './replay-options.js';
import { ReplayRunner } from './replay-runner.js';

interface ReplayParts {
  readonly service: ReplayService;
  readonly lifecycle: ReplayLifecycle;
}

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
    return {
      module: ReplayModule,
      global: true,
      controllers: resolved.http ? [replayController(resolved.http)] : [],
      providers: [
        partsProvider(resolved),
        { provide: ReplayService, inject: [partsToken], useFactory: ({ service }: ReplayParts) => service },
        { provide: ReplayLifecycle, inject: [partsToken], useFactory: ({ lifecycle }: ReplayParts) => lifecycle },
      ],
      exports: [ReplayService],
    };
  }
}

function partsProvider(options: ResolvedReplayOptions): Provider {
  return {
    provide: partsToken,
    inject: [getDataSourceToken(options.dataSource), { token: SchedulerRegistry, optional: true }],
    useFactory: (dataSource: DataSource, scheduler?: SchedulerRegistry): ReplayParts => {
      const pool = new ControlPool(dataSource, { size: options.controlPool });
      const runner: ReplayRunner = new ReplayRunner(
        () => service.runs,
        newInstanceId(),
        options.runClaim,
        options.pollInterval,
        scheduler,
      );
      const service: ReplayService = new ReplayService(pool, options, () => options.enabled && runner.wake());
      return { service, lifecycle: new ReplayLifecycle(options.enabled, runner, pool) };
    },
  };
}
