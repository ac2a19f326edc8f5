import { Controller, Get, Inject, ServiceUnavailableException } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { InboxLifecycle } from '../../index.js';
import { RedisCheck } from './redis-check.js';

/** Longer than a healthy answer, shorter than the patience of a load balancer. */
const databaseTimeoutMs = 1_000;

type Check =
  | { readonly status: 'up' }
  | { readonly status: 'degraded'; readonly reason: string }
  | { readonly status: 'down'; readonly reason: string };

/** For the load balancer: alive as long as it answers, ready while pushes can be stored. */
@Controller('health')
export class HealthController {
  private asking: Promise<Check> | undefined;

  constructor(
    @Inject(DataSource) private readonly dataSource: DataSource,
    @Inject(InboxLifecycle) private readonly inbox: InboxLifecycle,
    @Inject(RedisCheck) private readonly redisCheck: RedisCheck,
  ) {}

  @Get('live')
  live(): { status: string } {
    return { status: 'ok' };
  }

  @Get('ready')
  async ready(): Promise<Record<string, unknown>> {
    const [database, redis] = await Promise.all([this.database(), this.redis()]);
    const checks: Record<string, Check> = {
      inbox: this.inbox.isDraining ? { status: 'down', reason: 'draining' } : { status: 'up' },
      database,
      ...(redis ? { redis } : {}),
    };
    const has = (status: Check['status']) => Object.values(checks).some((check) => check.status === status);
    if (has('down')) throw new ServiceUnavailableException({ status: 'error', details: checks });
    return { status: has('degraded') ? 'degraded' : 'ok', details: checks };
  }

  /** Without Redis pushes are still stored, so it must not take the instance out of the load balancer. */
  private async redis(): Promise<Check | null> {
    const up = await this.redisCheck.isUp();
    if (up === null) return null;
    return up ? { status: 'up' } : { status: 'degraded', reason: 'not available: messages are stored and wait' };
  }

  /** One question at a time, however many ask: probes must not pile up on a database that does not answer. */
  private database(): Promise<Check> {
    this.asking ??= this.ask().finally(() => (this.asking = undefined));
    return this.asking;
  }

  private async ask(): Promise<Check> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<Check>((resolve) => {
      timer = setTimeout(
        () => resolve({ status: 'down', reason: `no answer within ${databaseTimeoutMs} ms` }),
        databaseTimeoutMs,
      );
    });
    const answer = this.dataSource.query('SELECT 1').then(
      (): Check => ({ status: 'up' }),
      (): Check => ({ status: 'down', reason: 'not available' }),
    );
    try {
      return await Promise.race([answer, late]);
    } finally {
      clearTimeout(timer);
    }
  }
}
