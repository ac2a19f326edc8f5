import type {
  BeforeApplicationShutdown,
  OnApplicationBootstrap,
  OnApplicationShutdown,
  OnModuleInit,
} from '@nestjs/common';
import type { ControlPool } from '../database/index.js';
import type { Shutdown, StartUp } from '../schedule/index.js';
import type { ReplayRunner } from './replay-runner.js';

/** Starts and stops the worker with the application. */
export class ReplayLifecycle
  implements OnModuleInit, OnApplicationBootstrap, BeforeApplicationShutdown, OnApplicationShutdown
{
  constructor(
    private readonly enabled: boolean,
    private readonly runner: ReplayRunner,
    pool: ControlPool,
    private readonly shutdown: Shutdown,
    private readonly startUp: StartUp,
  ) {
    shutdown.join({ name: 'replay', stop: () => runner.stop(), close: (graceMs) => pool.close(graceMs) });
  }

  onModuleInit(): void {
    this.startUp.enter('ReplayModule');
  }

  onApplicationBootstrap(): void {
    if (this.enabled && !this.shutdown.hasBegun) this.runner.start();
  }

  beforeApplicationShutdown(): Promise<void> {
    return this.shutdown.run();
  }

  /** When start-up failed half-way, Nest calls this alone. */
  async onApplicationShutdown(): Promise<void> {
    await this.shutdown.run();
    void this.shutdown.over();
  }
}
