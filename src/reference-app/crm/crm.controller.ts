import {
  Controller,
  Get,
  Headers,
  HttpCode,
  Inject,
  NotFoundException,
  Param,
  Post,
  Query,
  type RawBodyRequest,
  Req,
  ServiceUnavailableException,
  UnauthorizedException,
} from '@nestjs/common';
import { DataSource } from 'typeorm';
import { InboxService } from '../../index.js';
import { bearerMatches } from '../bearer-token.js';
import type { Environment } from '../environment.js';
import { environmentToken } from '../environment.token.js';
import { crmSource } from './crm-push.js';

interface IncomingPush {
  readonly body?: unknown;
  readonly headers: Record<string, string | string[] | undefined>;
}

/** Takes the CRM's pushes in, and shows the profiles that they led to. */
@Controller()
export class CrmController {
  constructor(
    @Inject(InboxService) private readonly inbox: InboxService,
    @Inject(DataSource) private readonly dataSource: DataSource,
    @Inject(environmentToken) private readonly environment: Environment,
  ) {}

  /** `?compensation=true`: an operator hands in again what the CRM lost; handled when the answer comes, never stored. */
  @Post('push')
  @HttpCode(200)
  push(
    @Req() request: RawBodyRequest<IncomingPush>,
    @Query('compensation') compensation: unknown,
    @Headers('authorization') authorization: string | undefined,
  ): Promise<unknown> {
    if (this.environment.INBOX_MODE === 'competing')
      throw new ServiceUnavailableException('profiles need INBOX_MODE=ordered: their handler relies on one lane');
    const rawBody = request.rawBody ?? Buffer.from(JSON.stringify(request.body ?? {}));
    const push = { headers: request.headers, rawBody };
    if (compensation !== 'true') return this.inbox.receive(crmSource, push);
    const { ADMIN_TOKEN } = this.environment;
    if (ADMIN_TOKEN === undefined) throw new NotFoundException();
    if (!bearerMatches(authorization, ADMIN_TOKEN))
      throw new UnauthorizedException('compensation needs Authorization: Bearer with the ADMIN_TOKEN');
    return this.inbox.execute(crmSource, push);
  }

  @Get('profiles/:externalId')
  async show(@Param('externalId') externalId: string): Promise<Record<string, unknown>> {
    const rows: { id: number | string; externalId: string; name: string; phone: string; merged: number }[] =
      await this.dataSource.query(
        `SELECT id, external_id AS externalId, name, phone, merged
           FROM demo_profile WHERE external_id = ? ORDER BY id LIMIT 1`,
        [externalId.slice(0, 64)],
      );
    const profile = rows[0];
    if (!profile) throw new NotFoundException('there is no such profile');
    return { ...profile, id: String(profile.id) };
  }
}
