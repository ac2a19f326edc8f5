import { type Push, type SourceOptions, standardWebhooks } from '../../index.js';
import { type OrderEvent, orderEvent } from './order-event.js';

/** One event or a list of them; parsed once per event, then kept for the functions that follow. */
export function orderSource(secret: string): SourceOptions {
  const parsed = new WeakMap<object, OrderEvent>();
  const eventOf = (push: Push, item: unknown): OrderEvent => {
    const value: unknown = item ?? push.json;
    if (typeof value !== 'object' || value === null) return orderEvent(value);
    const event = parsed.get(value) ?? orderEvent(value);
    parsed.set(value, event);
    return event;
  };
  return {
    path: 'webhooks/orders',
    verify: standardWebhooks({ secrets: [secret] }),
    split: (push) => (Array.isArray(push.json) ? push.json : null),
    type: (push, item) => eventOf(push, item).type,
    // The webhook's id names the push, so it can stand for the event only where a push is one event.
    dedupKey: (push, item) =>
      eventOf(push, item).eventId ?? (item === undefined ? push.header('webhook-id') : undefined),
    entityKey: (push, item) => eventOf(push, item).orderId,
    sequence: (push, item) => Date.parse(eventOf(push, item).occurredAt),
  };
}
