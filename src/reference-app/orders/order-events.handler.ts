import { Inject, Injectable } from '@nestjs/common';
import { type InboxContext, InboxHandler, type InboxMessage } from '../../index.js';
import type { Environment } from '../environment.js';
import { environmentToken } from '../environment.token.js';
import { simulate } from '../simulate.js';
import { nextStatus, type OrderEvent, type OrderStatus } from './order-event.js';

/** Applies order events. What the order's state machine does not allow is a success that is counted as ignored. */
@Injectable()
export class OrderEventsHandler {
  constructor(@Inject(environmentToken) private readonly environment: Environment) {}

  @InboxHandler('*', { source: 'orders' })
  async apply(message: InboxMessage<OrderEvent>, ctx: InboxContext): Promise<void> {
    const event = message.json;
    await simulate(this.environment.SIMULATE, event, ctx);
    const [order] = (await ctx.manager.query('SELECT status FROM demo_order WHERE order_id = ? FOR UPDATE', [
      event.orderId,
    ])) as {
      status: OrderStatus;
    }[];
    const status = nextStatus(order?.status ?? null, event.type);
    if (status !== null && !order) {
      await ctx.manager.query(
        'INSERT INTO demo_order (order_id, status, amount, applied_events, updated_at) VALUES (?, ?, ?, 1, UTC_TIMESTAMP(3))',
        [event.orderId, status, event.amount],
      );
    } else if (status !== null) {
      await ctx.manager.query(
        'UPDATE demo_order SET status = ?, amount = ?, applied_events = applied_events + 1, updated_at = UTC_TIMESTAMP(3) WHERE order_id = ?',
        [status, event.amount, event.orderId],
      );
    } else if (order) {
      await ctx.manager.query(
        'UPDATE demo_order SET ignored_events = ignored_events + 1, updated_at = UTC_TIMESTAMP(3) WHERE order_id = ?',
        [event.orderId],
      );
    } else {
      ctx.logger.warn({
        msg: 'an event of an order that was never created was ignored',
        messageId: ctx.messageId,
        type: event.type,
      });
    }
  }
}
