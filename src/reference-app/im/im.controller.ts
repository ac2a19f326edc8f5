import { BadRequestException, Body, Controller, Get, Inject, NotFoundException, Param, Post } from '@nestjs/common';
import { ImService, type Posted } from './im.service.js';
import { imMessage } from './im-message.js';

/** Posts chat messages, and shows what became of them. */
@Controller('im/messages')
export class ImController {
  constructor(@Inject(ImService) private readonly messages: ImService) {}

  @Post()
  post(@Body() body: unknown): Promise<Posted> {
    const read = imMessage(body);
    if ('problems' in read) throw new BadRequestException(read.problems);
    return this.messages.post(read.message);
  }

  @Get(':id')
  async show(@Param('id') id: string): Promise<Record<string, unknown>> {
    const message = /^\d{1,19}$/.test(id) ? await this.messages.find(id) : null;
    if (!message) throw new NotFoundException('there is no such message');
    return message;
  }
}
