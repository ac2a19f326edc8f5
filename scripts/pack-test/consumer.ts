// What a user of the packed package writes, as an ES module. Copied next to the unpacked tarball, type-checked and run there.
import { github, type InboxContext, InboxHandler, InboxMessage, InboxModule, standardWebhooks } from 'nestjs-mailroom';
import { mailroomMigrations } from 'nestjs-mailroom/migrations';
import { drainInbox } from 'nestjs-mailroom/testing';

interface OrderPaid {
  readonly orderId: string;
}

export class OrderEvents {
  @InboxHandler('order.paid', { source: 'order-center' })
  async paid(message: InboxMessage<OrderPaid>, context: InboxContext): Promise<void> {
    await context.manager.query('UPDATE orders SET paid = 1 WHERE id = ?', [message.json.orderId]);
  }
}

export const module = InboxModule.forRoot({
  enabled: true,
  sources: {
    'order-center': {
      path: 'webhooks/orders',
      verify: standardWebhooks({ secrets: [`whsec_${Buffer.from('for the check of types only').toString('base64')}`] }),
      type: (push) => (push.json as { type: string }).type,
    },
    github: { verify: github({ secrets: ['for the check of types only'] }), type: 'push' },
  },
});

export const exported: readonly unknown[] = [mailroomMigrations(), drainInbox];
