import { Inject, Injectable } from '@nestjs/common';
import { type InboxContext, InboxHandler, type InboxMessage, OutboxService } from '../../index.js';
import type { Environment } from '../environment.js';
import { environmentToken } from '../environment.token.js';
import { simulate } from '../simulate.js';
import { nextStatus, type OrderEvent, type OrderStatus } from './order-event.js';
import { type Reserve, reserveTopic } from './warehouse.handler.js';

/** Status of an order of which only events have come that it does not allow: its creation is missing. */
const neverCreated = 'unknown';

/** Applies order events. What the order's state machine does not allow is a success that is counted as ignored. */
@Injectable()
export class OrderEventsHandler {
  constructor(
    @Inject(environmentToken) private readonly environment: Environment,
    @Inject(OutboxService) private readonly outbox: OutboxService,
  ) {}

  @InboxHandler('*', { source: 'orders' })
  async apply(message: InboxMessage<OrderEvent>, ctx: InboxContext): Promise<void> {
    const event = message.json;
    await simulate(this.environment.SIMULATE, event, ctx);
    const [order] = (await ctx.manager.query('SELECT status FROM demo_order WHERE order_id = ? FOR UPDATE', [
      event.orderId,
    ])) as { status: OrderStatus | typeof neverCreated }[];
    const from = order && order.status !== neverCreated ? order.status : null;
    const to = nextStatus(from, event.type);
    const [applied, ignored] = to === null ? [0, 1] : [1, 0];
    await ctx.manager.query(
      `INSERT INTO demo_order (order_id, status, amount, applied_events, ignored_events, updated_at)
       VALUES (?, ?, ?, ?, ?, UTC_TIMESTAMP(3))
       ON DUPLICATE KEY UPDATE status = VALUES(status), amount = IF(?, VALUES(amount), amount),
         applied_events = applied_events + VALUES(applied_events), ignored_events = ignored_events + VALUES(ignored_events),
         updated_at = VALUES(updated_at)`,
      [event.orderId, to ?? from ?? neverCreated, event.amount, applied, ignored, applied],
    );
    if (to === 'paid') {
      const payload: Reserve = { orderId: event.orderId, amount: event.amount };
      await this.outbox.enqueue(ctx.manager, { topic: reserveTopic, key: event.orderId, payload });
    }
  }
}
