import {
  type BeforeApplicationShutdown,
  type OnApplicationBootstrap,
  type OnApplicationShutdown,
  type OnModuleInit,
} from '@nestjs/common';
import type { SchedulerRegistry } from '@nestjs/schedule';
import type { ControlPool } from '../database/index.js';
import type { RetryWindows } from '../observability/index.js';
import { MailroomLogger } from '../observability/logging/mailroom-logger.js';
import { FixedDelayLoop, type Shutdown, type StartUp } from '../schedule/index.js';
import type { RetentionService } from './retention.service.js';
import { checkWindows, type ResolvedRetentionOptions } from './retention-options.js';

/** A pass ends by itself after a minute and the batch that it is in. */
const passDeadlineMs = 180_000;

/** Starts and stops retention with the application. */
export class RetentionLifecycle
  implements OnModuleInit, OnApplicationBootstrap, BeforeApplicationShutdown, OnApplicationShutdown
{
  private readonly logger = new MailroomLogger('Retention');
  private readonly loop: FixedDelayLoop;

  constructor(
    private readonly options: ResolvedRetentionOptions,
    private readonly service: RetentionService,
    private readonly windows: RetryWindows,
    pool: ControlPool,
    private readonly shutdown: Shutdown,
    private readonly startUp: StartUp,
    registry: SchedulerRegistry | undefined,
  ) {
    this.loop = new FixedDelayLoop({
      name: 'mailroom:retention',
      delayMs: options.interval,
      passDeadlineMs,
      pass: async () => {
        const pass = await this.service.pass();
        if (pass?.more) this.loop.wake();
      },
      onError: (error) => this.failed(error),
      registry,
    });
    shutdown.join({ name: 'retention', stop: () => this.stop(), close: (graceMs) => pool.close(graceMs) });
  }

  /** The other modules are built now, and have said how long they try. */
  onModuleInit(): void {
    this.startUp.enter('RetentionModule');
    checkWindows(this.options, this.windows);
  }

  onApplicationBootstrap(): void {
    if (this.options.enabled && !this.shutdown.hasBegun) this.loop.start();
  }

  beforeApplicationShutdown(): Promise<void> {
    return this.shutdown.run();
  }

  /** When start-up failed half-way, Nest calls this alone. */
  async onApplicationShutdown(): Promise<void> {
    await this.shutdown.run();
    void this.shutdown.over();
  }

  private stop(): Promise<void> {
    this.service.stop();
    return this.loop.stop();
  }

  private failed(error: unknown): void {
    const { message, code } = error as { message?: string; code?: string };
    this.logger.warn({ msg: 'a pass of retention failed; the next one comes after the pause', code, error: message });
  }
}
