import {
  type BeforeApplicationShutdown,
  type OnApplicationBootstrap,
  type OnApplicationShutdown,
  type OnModuleInit,
} from '@nestjs/common';
import type { HttpAdapterHost } from '@nestjs/core';
import { unsupportedServer } from '../database/index.js';
import { InvalidOptionsError } from '../errors/invalid-options.error.js';
import { SchemaMismatchError } from '../errors/schema-mismatch.error.js';
import { MailroomLogger } from '../observability/logging/mailroom-logger.js';
import type { InboxParts } from './build-inbox.js';
import type { HandlerExplorer } from './handler-explorer.js';
import { checkInboxSchema } from './inbox-schema.js';
import { cannotMount, mountWebhooks } from './mount-webhooks.js';
import { packetProblems } from './packet-check.js';

/** Starts and stops the inbox with the application. Everything of ours ends before TypeORM and Redis are closed. */
export class InboxLifecycle
  implements OnModuleInit, OnApplicationBootstrap, BeforeApplicationShutdown, OnApplicationShutdown
{
  private readonly logger = new MailroomLogger('InboxModule');
  private stopping: Promise<void> | undefined;

  constructor(
    private readonly parts: InboxParts,
    private readonly explorer: HandlerExplorer,
    private readonly adapters: HttpAdapterHost,
  ) {}

  async onModuleInit(): Promise<void> {
    const { registry, endpoint } = this.parts;
    this.explorer.explore(registry);
    await this.checkServer();
    if (endpoint.paths.size > 0 && !(await mountWebhooks(this.adapters.httpAdapter, endpoint))) {
      this.logger.warn(cannotMount([...endpoint.paths.keys()]));
    }
  }

  onApplicationBootstrap(): void {
    const { options, registry, consumer } = this.parts;
    if (!options.enabled) {
      this.logger.warn('inbox.enabled is false: pushes are stored, but nothing handles them in this instance');
    } else if (registry.size === 0) {
      this.logger.warn('the inbox is enabled, but no method is marked with @InboxHandler: messages will wait');
    } else {
      this.checkPool();
    }
    consumer.start();
  }

  /** Each message in work uses a connection of the application from its first statement through ctx.manager on. */
  private checkPool(): void {
    const { options, poolSize } = this.parts;
    const [path, atOnce] =
      options.mode === 'competing' ? ['concurrency', options.concurrency] : ['lanes', options.lanes];
    if (atOnce <= poolSize) return;
    this.logger.warn(
      `inbox.${path} is ${atOnce}, but the DataSource has ${poolSize} connections: handlers will wait for one another. Set its poolSize above ${atOnce}, or inbox.${path} to less`,
    );
  }

  /** Before the HTTP server and the DataSource close. */
  beforeApplicationShutdown(): Promise<void> {
    this.stopping ??= this.drain();
    return this.stopping;
  }

  /** When start-up failed half-way, Nest calls this alone. */
  async onApplicationShutdown(): Promise<void> {
    await this.beforeApplicationShutdown();
  }

  /** True from the first moment of the shutdown: readiness must say 503. */
  get isDraining(): boolean {
    return this.stopping !== undefined;
  }

  private async drain(): Promise<void> {
    const { options, intake, consumer, execution, pool } = this.parts;
    const deadlineAt = performance.now() + options.shutdown.deadline;
    if (this.adapters.httpAdapter?.getHttpServer?.()?.listening) await pause(options.shutdown.readinessDelay);
    intake.drain();
    const graceMs = Math.max(0, deadlineAt - performance.now());
    await Promise.all([consumer.stop(graceMs), execution.stop(graceMs)]);
    while (intake.pending > 0 && performance.now() < deadlineAt) await pause(5);
    this.parts.known?.close();
    await pool.close();
  }

  private async checkServer(): Promise<void> {
    try {
      const problem = unsupportedServer(await this.parts.dialect());
      if (problem) throw new InvalidOptionsError('dataSource', undefined, problem);
      const { options } = this.parts;
      for (const warning of await checkInboxSchema(this.parts.pool, options.table, options.enabled))
        this.logger.warn(warning);
      const packetLimit = await this.parts.packet.ask();
      if (packetLimit === null) return;
      for (const warning of packetProblems(this.parts.options, packetLimit)) this.logger.warn(warning);
    } catch (error) {
      if (error instanceof InvalidOptionsError || error instanceof SchemaMismatchError) throw error;
      this.logger.warn({
        msg: 'the database could not be asked for its version and its tables',
        error: (error as Error).message,
      });
    }
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
