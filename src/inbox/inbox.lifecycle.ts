import {
  type BeforeApplicationShutdown,
  type OnApplicationBootstrap,
  type OnApplicationShutdown,
  type OnModuleInit,
} from '@nestjs/common';
import type { HttpAdapterHost } from '@nestjs/core';
import { serverChecks, unsupportedServer } from '../database/index.js';
import { InvalidOptionsError } from '../errors/invalid-options.error.js';
import { SchemaMismatchError } from '../errors/schema-mismatch.error.js';
import { MailroomLogger } from '../observability/logging/mailroom-logger.js';
import type { Shutdown, StartUp } from '../schedule/index.js';
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

  constructor(
    private readonly parts: InboxParts,
    private readonly explorer: HandlerExplorer,
    private readonly adapters: HttpAdapterHost,
    private readonly shutdown: Shutdown,
    private readonly startUp: StartUp,
  ) {
    const { shutdown: times } = parts.options;
    shutdown.join({
      name: 'inbox',
      readinessDelayMs: times.readinessDelay,
      deadlineMs: times.deadline,
      connections: parts.connections,
      stop: (graceMs) => this.stop(graceMs),
      close: (graceMs) => this.close(graceMs),
    });
  }

  async onModuleInit(): Promise<void> {
    this.startUp.enter('InboxModule');
    const { registry, endpoint } = this.parts;
    this.explorer.explore(registry);
    await this.checkServer();
    if (this.parts.options.enabled && registry.size > 0)
      this.startUp.uses(`inbox.${this.atOnce[0]}`, this.atOnce[1], this.parts.poolSize);
    if (endpoint.paths.size > 0 && !(await mountWebhooks(this.adapters.httpAdapter, endpoint))) {
      this.logger.warn(cannotMount([...endpoint.paths.keys()]));
    }
  }

  onApplicationBootstrap(): void {
    this.startUp.tell();
    const { options, registry, consumer } = this.parts;
    if (!options.enabled) {
      this.logger.warn('inbox.enabled is false: pushes are stored, but nothing handles them in this instance');
    } else if (registry.size === 0) {
      this.logger.warn('the inbox is enabled, but no method is marked with @InboxHandler: messages will wait');
    } else {
      this.checkPool();
    }
    // A signal may have come while the application started.
    if (!this.isDraining) consumer.start();
  }

  private get atOnce(): readonly ['concurrency' | 'lanes', number] {
    const { mode, concurrency, lanes } = this.parts.options;
    return mode === 'competing' ? ['concurrency', concurrency] : ['lanes', lanes];
  }

  /** Each message in work uses a connection of the application from its first statement through ctx.manager on. */
  private checkPool(): void {
    const { poolSize } = this.parts;
    const [path, atOnce] = this.atOnce;
    if (atOnce <= poolSize) return;
    this.logger.warn(
      `inbox.${path} is ${atOnce}, but the DataSource has ${poolSize} connections: handlers will wait for one another. Set its poolSize above ${atOnce}, or inbox.${path} to less`,
    );
  }

  /** Before the HTTP server and the DataSource close. */
  beforeApplicationShutdown(): Promise<void> {
    return this.shutdown.run();
  }

  /** When start-up failed half-way, Nest calls this alone. */
  async onApplicationShutdown(): Promise<void> {
    await this.shutdown.run();
    void this.shutdown.over();
  }

  /** True from the first moment of the shutdown: readiness must say 503. */
  get isDraining(): boolean {
    return this.shutdown.hasBegun;
  }

  /** Claims nothing more, then takes in nothing more. Leases are released on the way. */
  private async stop(graceMs: number): Promise<void> {
    const { intake, consumer, execution } = this.parts;
    const endAt = performance.now() + graceMs;
    const ended = Promise.all([consumer.stop(graceMs), execution.stop(graceMs)]);
    intake.drain();
    await ended;
    while (intake.pending > 0 && performance.now() < endAt) await pause(5);
  }

  private async close(graceMs: number): Promise<void> {
    this.parts.known?.close();
    await this.parts.pool.close(graceMs);
  }

  private async checkServer(): Promise<void> {
    try {
      const problem = unsupportedServer(await this.parts.dialect());
      if (problem) throw new InvalidOptionsError('dataSource', undefined, problem);
      const { options } = this.parts;
      for (const warning of await checkInboxSchema(this.parts.pool, options.table, options.enabled))
        this.logger.warn(warning);
      await this.startUp.server(this.parts.dataSource, async () =>
        serverChecks(this.parts.pool, this.parts.dataSource, await this.parts.dialect()),
      );
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
