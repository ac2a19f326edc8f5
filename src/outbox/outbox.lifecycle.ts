import {
  type BeforeApplicationShutdown,
  type OnApplicationBootstrap,
  type OnApplicationShutdown,
  type OnModuleInit,
} from '@nestjs/common';
import type { DiscoveryService, MetadataScanner } from '@nestjs/core';
import {
  detectDialect,
  outboxNeed,
  passSchemaGate,
  serverChecks,
  sharedNeeds,
  unsupportedServer,
} from '../database/index.js';
import { InvalidOptionsError } from '../errors/invalid-options.error.js';
import { SchemaMismatchError } from '../errors/schema-mismatch.error.js';
import { MailroomLogger } from '../observability/logging/mailroom-logger.js';
import { isLate, type Shutdown, type StartUp } from '../schedule/index.js';
import type { OutboxParts } from './build-outbox.js';
import { exploreOutboxHandlers } from './handler-explorer.js';

/** Tables that enqueueing and sending take for granted. */
const needs = [outboxNeed, sharedNeeds.receiver, sharedNeeds.orderKey, sharedNeeds.processed, sharedNeeds.setting];

/** Starts and stops the relay with the application. Everything of ours ends before TypeORM closes. */
export class OutboxLifecycle
  implements OnModuleInit, OnApplicationBootstrap, BeforeApplicationShutdown, OnApplicationShutdown
{
  private readonly logger = new MailroomLogger('OutboxModule');

  constructor(
    private readonly parts: OutboxParts,
    private readonly discovery: DiscoveryService,
    private readonly scanner: MetadataScanner,
    private readonly shutdown: Shutdown,
    private readonly startUp: StartUp,
  ) {
    const { options, relay } = parts;
    shutdown.join({
      name: 'outbox',
      deadlineMs: options.shutdown.deadline,
      connections: parts.connections,
      stop: (graceMs) => relay.stop(graceMs),
      close: (graceMs) => this.close(graceMs),
    });
  }

  async onModuleInit(): Promise<void> {
    this.startUp.enter('OutboxModule');
    exploreOutboxHandlers(this.discovery, this.scanner, this.parts.registry);
    await this.checkServer();
    const { options, registry, poolSize } = this.parts;
    // Sends hold no connection of the application; handlers of the local transport do.
    if (options.enabled && registry.size > 0) this.startUp.uses('outbox.concurrency', options.concurrency, poolSize);
    await this.parts.bus?.open();
    await this.openTransports();
  }

  private async checkServer(): Promise<void> {
    try {
      const { pool, dataSource } = this.parts;
      const dialect = await detectDialect(pool);
      const problem = unsupportedServer(dialect);
      if (problem) throw new InvalidOptionsError('dataSource', undefined, problem);
      for (const warning of await passSchemaGate(this.parts.pool, needs)) this.logger.warn(warning);
      await this.startUp.server(dataSource, () => serverChecks(pool, dataSource, dialect));
    } catch (error) {
      if (error instanceof InvalidOptionsError || error instanceof SchemaMismatchError) throw error;
      this.logger.warn({
        msg: 'the database could not be asked for its version and its tables',
        error: (error as Error).message,
      });
    }
  }

  private async openTransports(): Promise<void> {
    const { options, service, database } = this.parts;
    // One transport may have several names.
    for (const transport of new Set(Object.values(options.transports))) {
      if (!('open' in transport)) continue;
      await transport.open?.({
        sendTimeoutMs: options.sendTimeout,
        database,
        wakeReceiver: (receiver) => service.wakeReceiver(receiver),
      });
    }
  }

  onApplicationBootstrap(): void {
    this.startUp.tell();
    const { options, relay } = this.parts;
    if (!options.enabled)
      this.logger.warn('outbox.enabled is false: messages are enqueued, but nothing sends them from this instance');
    // A signal may have come while the application started.
    if (!this.isDraining) relay.start();
  }

  /** Before the HTTP server and the DataSource close. */
  beforeApplicationShutdown(): Promise<void> {
    return this.shutdown.run();
  }

  /** Requests that were in flight may have enqueued until now. When start-up failed half-way, Nest calls this alone. */
  async onApplicationShutdown(): Promise<void> {
    await this.shutdown.run();
    void this.shutdown.over();
    this.parts.unwatch();
    this.parts.bus?.close();
  }

  /** True from the first moment of the shutdown. */
  get isDraining(): boolean {
    return this.shutdown.hasBegun;
  }

  private async close(graceMs: number): Promise<void> {
    const endAt = performance.now() + graceMs;
    if (await isLate(this.closeTransports(), graceMs / 2))
      this.logger.warn('a transport did not close in time and was left behind');
    await this.parts.pool.close(Math.max(0, endAt - performance.now()));
  }

  private async closeTransports(): Promise<void> {
    for (const [name, transport] of Object.entries(this.parts.options.transports)) {
      try {
        if ('close' in transport) await transport.close?.();
      } catch (error) {
        this.logger.warn({ msg: 'a transport could not be closed', transport: name, error: (error as Error).message });
      }
    }
  }
}
