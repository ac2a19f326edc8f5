import { type DynamicModule, Module } from '@nestjs/common';
import { ScheduleModule } from '@nestjs/schedule';
import { TypeOrmModule } from '@nestjs/typeorm';
import { LoggerModule } from 'nestjs-pino';
import { mailroomMigrations } from '../../migrations/index.js';
import {
  InboxModule,
  type InboxOptions,
  MailroomHealthModule,
  MailroomLogModule,
  MailroomMetricsModule,
  OutboxModule,
  ReplayModule,
  RetentionModule,
  type SourceOptions,
  WebSocketReceivers,
} from '../index.js';
import { AdminGuard } from './admin/admin.guard.js';
import { ContractController } from './contracts/contract.controller.js';
import { ContractEventsHandler } from './contracts/contract-events.handler.js';
import { contractSource, contractSourceOptions } from './contracts/contract-source.js';
import { CrmController } from './crm/crm.controller.js';
import { crmSource, crmSourceOptions } from './crm/crm-push.js';
import { ProfileHandler } from './crm/profile.handler.js';
import { demoMigrations } from './demo-migrations.js';
import { type Environment, leaseBackend } from './environment.js';
import { environmentToken } from './environment.token.js';
import { GithubEventsHandler } from './github/github-events.handler.js';
import { githubSource } from './github/github-source.js';
import { HealthController } from './health/health.controller.js';
import { ImController } from './im/im.controller.js';
import { ImGateway } from './im/im.gateway.js';
import { ImService } from './im/im.service.js';
import { logging } from './logging.js';
import { OrderController } from './orders/order.controller.js';
import { OrderEventsHandler } from './orders/order-events.handler.js';
import { orderSource } from './orders/order-source.js';
import { WarehouseHandler } from './orders/warehouse.handler.js';
import { outboxOptions } from './outbox-options.js';

/** The reference application: what a team would write around mailroom. */
@Module({})
// biome-ignore lint/complexity/noStaticOnlyClass: a Nest module is a class with static factories
export class AppModule {
  static forEnvironment(environment: Environment): DynamicModule {
    const sources = sourcesOf(environment);
    const receivers = new WebSocketReceivers();
    return {
      module: AppModule,
      global: true,
      imports: [
        LoggerModule.forRoot(logging),
        TypeOrmModule.forRoot({
          type: 'mysql',
          url: environment.DATABASE_URL,
          migrations: [...mailroomMigrations(), ...demoMigrations],
          retryAttempts: 10,
          retryDelay: 500,
          poolSize: 20,
        }),
        ScheduleModule.forRoot(),
        InboxModule.forRoot(inboxOptions(environment, sources)),
        OutboxModule.forRoot(outboxOptions(environment, receivers)),
        MailroomHealthModule.forRoot(),
        MailroomLogModule.forRoot({ sampleRate: environment.LOG_SAMPLE_RATE }),
        MailroomMetricsModule.forRoot({ path: 'metrics' }),
        ReplayModule.forRoot({
          maxReplays: 10,
          pollInterval: '1s',
          ...(environment.INBOX_TABLE ? { inboxTable: environment.INBOX_TABLE } : {}),
          http: { path: 'admin/replay', guard: AdminGuard, actor: () => 'admin' },
        }),
        RetentionModule.forRoot({
          success: environment.RETENTION_SUCCESS_MINUTES * 60_000,
          ...(environment.INBOX_TABLE ? { inboxTable: environment.INBOX_TABLE } : {}),
        }),
      ],
      controllers: [OrderController, CrmController, ContractController, ImController, HealthController],
      providers: [
        { provide: environmentToken, useValue: environment },
        { provide: WebSocketReceivers, useValue: receivers },
        ImGateway,
        ImService,
        WarehouseHandler,
        ...(sources[crmSource] ? [ProfileHandler] : []),
        ...(sources.orders ? [OrderEventsHandler] : []),
        ...(sources.github ? [GithubEventsHandler] : []),
        ...(sources[contractSource] ? [ContractEventsHandler] : []),
      ],
      exports: [environmentToken],
    };
  }
}

/** A source without its secret is left out: an unsigned webhook would let anybody write. */
function sourcesOf({
  ORDERS_SECRET,
  GITHUB_SECRET,
  CONTRACTS_SECRET,
  INBOX_MODE,
}: Environment): Record<string, SourceOptions> {
  return {
    // Its handler checks, then inserts: right only where one lane handles one message after the other.
    ...(INBOX_MODE === 'ordered' ? { [crmSource]: crmSourceOptions() } : {}),
    ...(ORDERS_SECRET ? { orders: orderSource(ORDERS_SECRET) } : {}),
    ...(GITHUB_SECRET ? { github: githubSource(GITHUB_SECRET) } : {}),
    ...(CONTRACTS_SECRET ? { [contractSource]: contractSourceOptions(CONTRACTS_SECRET) } : {}),
  };
}

function inboxOptions(environment: Environment, sources: Record<string, SourceOptions>): InboxOptions {
  const backend = leaseBackend(environment);
  return {
    enabled: environment.INBOX_ENABLED,
    ...(environment.INBOX_TABLE ? { table: environment.INBOX_TABLE } : {}),
    sources,
    lease: {
      backend,
      ttl: environment.LEASE_TTL_MS,
      ...(backend === 'redis' && environment.REDIS_URL ? { redis: environment.REDIS_URL } : {}),
    },
    mode: environment.INBOX_MODE,
    lanes: environment.INBOX_LANES,
    batchSize: environment.INBOX_BATCH_SIZE,
    maxRetry: environment.INBOX_MAX_RETRY,
    backoff: environment.INBOX_BACKOFF_SECONDS.map((seconds) => seconds * 1_000),
    orphanAfter: environment.INBOX_ORPHAN_MINUTES * 60_000,
    handlerTimeout: environment.INBOX_HANDLER_TIMEOUT_MS,
    roundInterval: environment.INBOX_ROUND_INTERVAL_MS,
    recoveryInterval: environment.INBOX_RECOVERY_INTERVAL_MS,
    intake: {
      maxInFlight: environment.INTAKE_MAX_IN_FLIGHT,
      ratePerSecond: environment.INTAKE_RATE_PER_SECOND,
      maxBacklog: environment.INTAKE_MAX_BACKLOG,
    },
    shutdown: { readinessDelay: environment.SHUTDOWN_READINESS_DELAY_MS, deadline: environment.SHUTDOWN_DEADLINE_MS },
  };
}
