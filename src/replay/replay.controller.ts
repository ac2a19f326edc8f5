import {
  BadRequestException,
  Body,
  Controller,
  Get,
  HttpCode,
  Inject,
  NotFoundException,
  Param,
  Post,
  Query,
  Req,
  type Type,
  UseGuards,
} from '@nestjs/common';
import type { Preview, Run } from '../delivery/runs/index.js';
import type { MessageLine, MessageView } from './message-view.js';
import { describeRoutes } from './open-api.js';
import { type Edited, type EditRequest, type ReplaySelection, ReplayService, type RunItem } from './replay.service.js';
import type { ReplayHttpOptions } from './replay-options.js';

type Words = Readonly<Record<string, unknown>>;

/** Which of a query string's words are numbers or lists; all others are text. */
const numbers = new Set(['attemptsAtLeast']);
const paging = new Set(['after', 'before', 'limit']);

/** The routes under the path of the options, each behind the guard. */
export function replayController({ path, guard, actor = () => 'http' }: ReplayHttpOptions): Type {
  @Controller(path)
  @UseGuards(guard)
  class ReplayController {
    constructor(@Inject(ReplayService) private readonly replay: ReplayService) {}

    /** Failed messages; filters as words of the query string. */
    @Get('messages')
    messages(@Query() query: Words): Promise<MessageLine[]> {
      const selection = selectionOf(query);
      const filters = Object.keys(selection).filter((name) => name !== 'box' && name !== 'status');
      return this.replay.messages(filters.length > 0 ? selection : { ...selection, all: true }, pageOf(query));
    }

    @Get('messages/:id')
    async message(@Param('id') id: string, @Query('box') box: unknown): Promise<MessageView> {
      return (await this.replay.message(id, box as ReplaySelection['box'])) ?? missing(`message ${id}`);
    }

    /** `{ body, reason, box? }`: another message in its place. */
    @Post('messages/:id/edit')
    edit(@Param('id') id: string, @Body() body: unknown, @Req() request: unknown): Promise<Edited> {
      return this.replay.edit(id, { ...wordsOf(body), actor: actor(request) } as EditRequest);
    }

    @Post('preview')
    @HttpCode(200)
    preview(@Body() body: unknown): Promise<Preview> {
      return this.replay.preview(wordsOf(body) as ReplaySelection);
    }

    /** `{ selection, reason, ratePerSecond?, keepOrder?, action? }`: starts a run. */
    @Post('runs')
    @HttpCode(202)
    start(@Body() body: unknown, @Req() request: unknown): Promise<Run> {
      const { selection, action = 'replay', ...rest } = wordsOf(body);
      const wanted = { ...rest, actor: actor(request) } as Parameters<ReplayService['start']>[1];
      const chosen = wordsOf(selection) as ReplaySelection;
      if (action === 'replay') return this.replay.start(chosen, wanted);
      if (action === 'discard') return this.replay.discard(chosen, wanted);
      throw new BadRequestException("action: write 'replay' or 'discard'");
    }

    @Get('runs')
    runs(@Query() query: Words): Promise<Run[]> {
      return this.replay.list({ ...(query.box === undefined ? {} : { box: query.box as 'inbox' }), ...pageOf(query) });
    }

    @Get('runs/:id')
    async run(@Param('id') id: string): Promise<Run> {
      return (await this.replay.get(id)) ?? missing(`run ${id}`);
    }

    @Get('runs/:id/items')
    items(@Param('id') id: string, @Query() query: Words): Promise<RunItem[]> {
      return this.replay.items(id, pageOf(query));
    }

    @Post('runs/:id/cancel')
    @HttpCode(200)
    async cancel(@Param('id') id: string): Promise<{ cancelled: boolean }> {
      return { cancelled: await this.replay.cancel(id) };
    }

    @Post('runs/:id/resume')
    @HttpCode(200)
    async resume(@Param('id') id: string): Promise<{ resumed: boolean }> {
      return { resumed: await this.replay.resume(id) };
    }
  }
  describeRoutes(ReplayController);
  return ReplayController;
}

function wordsOf(value: unknown): Words {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Words;
  throw new BadRequestException('write a JSON object');
}

function selectionOf(query: Words): ReplaySelection {
  const entries = Object.entries(query).filter(([name]) => !paging.has(name));
  return Object.fromEntries(
    entries.map(([name, value]) => {
      if (name === 'ids') return [name, String(value).split(',')];
      if (name === 'all' && value === 'true') return [name, true];
      return [name, numbers.has(name) ? Number(value) : value];
    }),
  ) as ReplaySelection;
}

function pageOf({ after, before, limit }: Words): { after?: string; before?: string; limit?: number } {
  return {
    ...(after === undefined ? {} : { after: String(after) }),
    ...(before === undefined ? {} : { before: String(before) }),
    ...(limit === undefined ? {} : { limit: Number(limit) }),
  };
}

function missing(what: string): never {
  throw new NotFoundException(`there is no ${what}`);
}
