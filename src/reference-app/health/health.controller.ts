import { Controller, Get, Inject, ServiceUnavailableException } from '@nestjs/common';
import { type HealthResult, MailroomHealthIndicator } from '../../index.js';

interface Answer {
  readonly status: 'ok' | 'degraded' | 'error';
  readonly details: HealthResult['mailroom']['checks'];
}

/** For the load balancer. Applications with @nestjs/terminus hand the indicator to its HealthCheckService instead. */
@Controller('health')
export class HealthController {
  constructor(@Inject(MailroomHealthIndicator) private readonly mailroom: MailroomHealthIndicator) {}

  @Get('live')
  async live(): Promise<Answer> {
    return answerOf(await this.mailroom.live());
  }

  @Get('ready')
  async ready(): Promise<Answer> {
    return answerOf(await this.mailroom.ready());
  }
}

/** @throws ServiceUnavailableException with the same body when it is down */
function answerOf({ mailroom: { status, checks } }: HealthResult): Answer {
  if (status === 'down') throw new ServiceUnavailableException({ status: 'error', details: checks });
  return { status: status === 'up' ? 'ok' : 'degraded', details: checks };
}
