import { z } from 'zod';

export const orderEventTypes = [
  'order.created',
  'order.paid',
  'order.shipped',
  'order.completed',
  'order.cancelled',
] as const;
export type OrderEventType = (typeof orderEventTypes)[number];

/** What an order centre pushes. Amounts are in cents. */
export interface OrderEvent {
  readonly eventId?: string;
  readonly orderId: string;
  readonly type: OrderEventType;
  readonly occurredAt: string;
  readonly amount: number;
}

const schema = z.looseObject({
  eventId: z.string().min(1).max(200).optional(),
  orderId: z.string().min(1).max(64),
  type: z.enum(orderEventTypes),
  occurredAt: z.iso.datetime({ offset: true }),
  amount: z.number().int().min(0),
});

/** Checked while the push is taken in: what is no order event is answered 400 and not stored. */
export function orderEvent(value: unknown): OrderEvent {
  return schema.parse(value) as OrderEvent;
}

export type OrderStatus = 'created' | 'paid' | 'shipped' | 'completed' | 'cancelled';

/** The order's own state machine: from where an event leads where; anything else is ignored. */
const transitions: Readonly<
  Record<OrderEventType, { readonly from: readonly (OrderStatus | null)[]; readonly to: OrderStatus }>
> = {
  'order.created': { from: [null], to: 'created' },
  'order.paid': { from: ['created'], to: 'paid' },
  'order.shipped': { from: ['paid'], to: 'shipped' },
  'order.completed': { from: ['shipped'], to: 'completed' },
  'order.cancelled': { from: ['created', 'paid'], to: 'cancelled' },
};

/** The status after an event; null when the order does not allow it. */
export function nextStatus(status: OrderStatus | null, type: OrderEventType): OrderStatus | null {
  const { from, to } = transitions[type];
  return from.includes(status) ? to : null;
}
