import { Injectable } from '@nestjs/common';
import { type InboxContext, InboxHandler, type InboxMessage } from '../../index.js';

/** Counts GitHub's events by type. */
@Injectable()
export class GithubEventsHandler {
  @InboxHandler('*', { source: 'github' })
  async count(message: InboxMessage, ctx: InboxContext): Promise<void> {
    await ctx.manager.query(
      'INSERT INTO demo_github_event (type, events) VALUES (?, 1) ON DUPLICATE KEY UPDATE events = events + 1',
      [message.type],
    );
  }
}
