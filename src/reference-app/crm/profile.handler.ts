import { Inject, Injectable } from '@nestjs/common';
import { type InboxContext, InboxHandler, type InboxMessage } from '../../index.js';
import type { Environment } from '../environment.js';
import { environmentToken } from '../environment.token.js';
import { simulate } from '../simulate.js';
import { crmSource, profileOf, profileType } from './crm-push.js';

/**
 * Looks whether the profile is there, then inserts it or merges into it. No unique key helps: that no other handler
 * does the same in between is the lane's doing.
 */
@Injectable()
export class ProfileHandler {
  constructor(@Inject(environmentToken) private readonly environment: Environment) {}

  @InboxHandler(profileType, { source: crmSource })
  async merge(message: InboxMessage<{ readonly msgStr?: unknown }>, ctx: InboxContext): Promise<void> {
    const profile = profileOf(message.json);
    const [known] = (await ctx.manager.query('SELECT id FROM demo_profile WHERE external_id = ? ORDER BY id LIMIT 1', [
      profile.externalId,
    ])) as { id: number }[];
    await simulate(this.environment.SIMULATE, profile, ctx);
    if (known) {
      await ctx.manager.query('UPDATE demo_profile SET name = ?, phone = ?, merged = merged + 1 WHERE id = ?', [
        profile.name,
        profile.phone,
        known.id,
      ]);
    } else {
      await ctx.manager.query('INSERT INTO demo_profile (external_id, name, phone) VALUES (?, ?, ?)', [
        profile.externalId,
        profile.name,
        profile.phone,
      ]);
    }
  }
}
