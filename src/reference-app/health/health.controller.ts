import { Controller, Get, Inject, ServiceUnavailableException } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { InboxLifecycle } from '../../index.js';

/** Longer than a healthy answer, shorter than the patience of a load balancer. */
const databaseTimeoutMs = 1_000;

type Check = { readonly status: 'up' } | { readonly status: 'down'; readonly reason: string };

/** For the load balancer: alive as long as it answers, ready while pushes can be stored. */
@Controller('health')
export class HealthController {
  private asking: Promise<Check> | undefined;

  constructor(
    @Inject(DataSource) private readonly dataSource: DataSource,
    @Inject(InboxLifecycle) private readonly inbox: InboxLifecycle,
  ) {}

  @Get('live')
  live(): { status: string } {
    return { status: 'ok' };
  }

  @Get('ready')
  async ready(): Promise<Record<string, unknown>> {
    const checks: Record<string, Check> = {
      inbox: this.inbox.isDraining ? { status: 'down', reason: 'draining' } : { status: 'up' },
      database: await this.database(),
    };
    const down = Object.values(checks).some((check) => check.status === 'down');
    const report = { status: down ? 'error' : 'ok', details: checks };
    if (down) throw new ServiceUnavailableException(report);
    return report;
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
