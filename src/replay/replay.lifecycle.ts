import type { BeforeApplicationShutdown, OnApplicationBootstrap, OnApplicationShutdown } from '@nestjs/common';
import type { ControlPool } from '../database/index.js';
import type { ReplayRunner } from './replay-runner.js';

/** Starts and stops the worker with the application. */
export class ReplayLifecycle implements OnApplicationBootstrap, BeforeApplicationShutdown, OnApplicationShutdown {
  private stopping: Promise<void> | undefined;

  constructor(
    private readonly enabled: boolean,
    private readonly runner: ReplayRunner,
    private readonly pool: ControlPool,
  ) {}

  onApplicationBootstrap(): void {
    if (this.enabled) this.runner.start();
  }

  beforeApplicationShutdown(): Promise<void> {
    this.stopping ??= this.runner.stop().then(() => this.pool.close());
    return this.stopping;
  }

  /** When start-up failed half-way, Nest calls this alone. */
  async onApplicationShutdown(): Promise<void> {
    await this.beforeApplicationShutdown();
  }
}
