// The server under load, a process of its own: one Nest application that takes the same push in four ways.
//   /empty    parses the JSON and stores nothing: what Nest itself costs
//   /save     `repository.save()` in a controller
//   /insert   one INSERT per request through a pool of mysql2
//   /webhooks/orders   the inbox: signature, dedup key, entity key
import 'reflect-metadata';
import { Body, Controller, HttpCode, Inject, Module, type OnApplicationShutdown, Post } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { ScheduleModule } from '@nestjs/schedule';
import { InjectRepository, TypeOrmModule } from '@nestjs/typeorm';
import mysql, { type Pool, type ResultSetHeader } from 'mysql2/promise';
import { Column, Entity, PrimaryGeneratedColumn, type Repository } from 'typeorm';
import { InboxModule, type Receipt, standardWebhooks } from '../../../src/index.js';
import { answerRequests } from '../harness/worker.js';

const { DATABASE_URL = '', FRAMEWORK = 'express', SECRET = '' } = process.env;

interface OrderEvent {
  readonly eventId: string;
  readonly orderId: string;
  readonly type: string;
}

/** The columns that a hand-written inbox would fill; the table has all columns and keys of inbox_message. */
@Entity('saved_push')
class SavedPush {
  @PrimaryGeneratedColumn({ type: 'bigint', unsigned: true })
  readonly id?: string;
  @Column({ type: 'varchar', length: 64 })
  source = '';
  @Column({ type: 'varchar', length: 128 })
  type = '';
  @Column({ name: 'dedup_key', type: 'varbinary', length: 255 })
  dedupKey = Buffer.alloc(0);
  @Column({ name: 'entity_key', type: 'varbinary', length: 255 })
  entityKey = Buffer.alloc(0);
  @Column({ name: 'content_type', type: 'varchar', length: 128 })
  contentType = '';
  @Column({ type: 'longblob' })
  body = Buffer.alloc(0);
  @Column({ name: 'received_at', type: 'datetime', precision: 3 })
  receivedAt = new Date(0);
}

const poolToken = Symbol('pool');
const source = 'order-center';
const json = 'application/json';
const stored = (id: unknown): Receipt => ({ id: String(id), duplicate: false, status: 'stored' });

@Controller()
class PushController implements OnApplicationShutdown {
  constructor(
    @InjectRepository(SavedPush) private readonly saved: Repository<SavedPush>,
    @Inject(poolToken) private readonly pool: Pool,
  ) {}

  @Post('empty')
  @HttpCode(200)
  empty(@Body() event: OrderEvent): Receipt {
    return stored(event.eventId);
  }

  @Post('save')
  @HttpCode(200)
  async save(@Body() event: OrderEvent): Promise<Receipt> {
    const { id } = await this.saved.save({
      source,
      type: event.type,
      dedupKey: Buffer.from(event.eventId),
      entityKey: Buffer.from(event.orderId),
      contentType: json,
      body: Buffer.from(JSON.stringify(event)),
      receivedAt: new Date(),
    });
    return stored(id);
  }

  @Post('insert')
  @HttpCode(200)
  async insert(@Body() event: OrderEvent): Promise<Receipt> {
    const [result] = await this.pool.execute<ResultSetHeader>(
      `INSERT INTO inserted_push (source, type, dedup_key, entity_key, content_type, body, received_at)
       VALUES (?, ?, ?, ?, ?, ?, UTC_TIMESTAMP(3))`,
      [source, event.type, event.eventId, event.orderId, json, JSON.stringify(event)],
    );
    return stored(result.insertId);
  }

  async onApplicationShutdown(): Promise<void> {
    await this.pool.end();
  }
}

@Module({
  imports: [
    TypeOrmModule.forRoot({ type: 'mysql', url: DATABASE_URL, entities: [SavedPush], timezone: 'Z' }),
    TypeOrmModule.forFeature([SavedPush]),
    ScheduleModule.forRoot(),
    InboxModule.forRoot({
      sources: {
        [source]: {
          path: 'webhooks/orders',
          verify: standardWebhooks({ secrets: [SECRET] }),
          type: (push) => push.json.type,
          dedupKey: (push) => push.json.eventId,
          entityKey: (push) => push.json.orderId,
        },
      },
      shutdown: { readinessDelay: 0, deadline: '10s' },
    }),
  ],
  controllers: [PushController],
  providers: [
    // Ten connections, what mysql2 and TypeORM take by themselves.
    { provide: poolToken, useFactory: () => mysql.createPool({ uri: DATABASE_URL, connectionLimit: 10 }) },
  ],
})
class PushModule {}

const options = { logger: ['error'] as 'error'[] };
const app =
  FRAMEWORK === 'fastify'
    ? await NestFactory.create(PushModule, new FastifyAdapter(), options)
    : await NestFactory.create(PushModule, options);
await app.listen(0, '127.0.0.1');
const origin = (await app.getUrl()).replace('[::1]', '127.0.0.1');

answerRequests(
  async () => ({ origin, cpuMs: cpuMs() }),
  () => app.close(),
);

/** Of all threads, since the start. */
function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}
