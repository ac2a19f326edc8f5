import type { Connection } from 'mysql2/promise';
import { nextStatus, type OrderEvent, type OrderEventType, type OrderStatus } from '../orders/order-event.js';
import type { Delivery, DemoPart, Sent, Verdict } from './demo-part.js';
import { standardWebhookHeaders } from './signing.js';

/** Lives of an order, one after the other over the orders; the fourth has an event that the order does not allow. */
const lives: readonly (readonly OrderEventType[])[] = [
  ['order.created', 'order.paid', 'order.shipped', 'order.completed'],
  ['order.created', 'order.cancelled'],
  ['order.created', 'order.paid', 'order.cancelled'],
  ['order.created', 'order.paid', 'order.shipped', 'order.paid', 'order.completed'],
];
const distinctEvents = 400;
/** One in four of the distinct events comes again: 20 % of all pushes. */
const repeatEvery = 4;
const failures = { transient: 9, permanent: 97 };

interface Expected {
  status: OrderStatus | null;
  applied: number;
  ignored: number;
  /** Reservations that the warehouse must have made. */
  reserved: number;
}

/** 500 pushes of order events, a fifth of them pushed again; some fail at first, a few for good, as planned. */
export class OrdersPart implements DemoPart {
  readonly name = 'order events';
  readonly source = 'orders';
  private readonly expected = new Map<string, Expected>();
  private plannedFailures = 0;

  constructor(private readonly secret: string) {}

  deliveries(): readonly Delivery[] {
    const deliveries: Delivery[] = [];
    let count = 0;
    for (let order = 0; count < distinctEvents; order++) {
      const orderId = `order-${order}`;
      for (const type of lives[order % lives.length] ?? []) {
        if (count === distinctEvents) break;
        count++;
        const delivery = this.delivery(orderId, `evt-${count}`, type, count);
        deliveries.push(delivery);
        if (count % repeatEvery === 0) deliveries.push(delivery);
      }
    }
    return deliveries;
  }

  async verify(database: Connection, sent: Sent): Promise<Verdict> {
    const [rows] = await database.query('SELECT order_id, status, applied_events, ignored_events FROM demo_order');
    const orders = new Map((rows as StoredOrder[]).map((row) => [row.order_id, row]));
    const problems: string[] = [];
    let lost = 0;
    let appliedTwice = 0;
    for (const [id, { status, applied, ignored }] of this.expected) {
      const order = orders.get(id);
      const difference = (order?.applied_events ?? 0) + (order?.ignored_events ?? 0) - applied - ignored;
      if (difference === 0 && order?.status === (status ?? 'unknown') && order.applied_events === applied) continue;
      problems.push(
        `${id}: expected ${status} after ${applied} + ${ignored} events, found ${JSON.stringify(order ?? null)}`,
      );
      if (difference > 0) appliedTwice += difference;
      else lost += Math.max(1, -difference);
    }
    const reservations = await this.verifyReservations(database);
    problems.push(...reservations.problems);
    lost += reservations.lost;
    appliedTwice += reservations.appliedTwice;
    if (sent.storedIds.length !== distinctEvents)
      problems.push(`${sent.storedIds.length} events were stored, ${distinctEvents} sent`);
    return { lost, appliedTwice, plannedFailures: this.plannedFailures, problems };
  }

  /** Each order that was paid is reserved once, through the outbox. */
  private async verifyReservations(database: Connection): Promise<Omit<Verdict, 'plannedFailures'>> {
    const [rows] = await database.query('SELECT order_id, COUNT(*) AS n FROM demo_reservation GROUP BY order_id');
    const found = new Map((rows as { order_id: string; n: string }[]).map(({ order_id, n }) => [order_id, Number(n)]));
    const problems: string[] = [];
    let lost = 0;
    let appliedTwice = 0;
    for (const [id, { reserved }] of this.expected) {
      const difference = (found.get(id) ?? 0) - reserved;
      if (difference !== 0) problems.push(`${id}: ${reserved} reservations expected, found ${found.get(id) ?? 0}`);
      if (difference > 0) appliedTwice += difference;
      else lost -= difference;
    }
    return { lost, appliedTwice, problems };
  }

  private delivery(orderId: string, eventId: string, type: OrderEventType, count: number): Delivery {
    const permanent = count % failures.permanent === 0;
    const event: OrderEvent & { simulate?: object } = {
      eventId,
      orderId,
      type,
      occurredAt: new Date(Date.UTC(2026, 0, 1) + count * 1_000).toISOString(),
      amount: 1_000 + count,
      ...(permanent
        ? { simulate: { permanent: true } }
        : count % failures.transient === 0
          ? { simulate: { failTimes: 1 } }
          : {}),
    };
    if (permanent) this.plannedFailures++;
    else this.expect(orderId, type);
    const body = Buffer.from(JSON.stringify(event));
    return {
      chain: orderId,
      path: '/webhooks/orders',
      headers: standardWebhookHeaders(this.secret, `msg_${eventId}`, body),
      body,
    };
  }

  private expect(orderId: string, type: OrderEventType): void {
    const order = this.expected.get(orderId) ?? { status: null, applied: 0, ignored: 0, reserved: 0 };
    const next = nextStatus(order.status, type);
    if (next === null) {
      order.ignored++;
    } else {
      order.status = next;
      order.applied++;
      if (next === 'paid') order.reserved++;
    }
    this.expected.set(orderId, order);
  }
}

interface StoredOrder {
  readonly order_id: string;
  readonly status: string;
  readonly applied_events: number;
  readonly ignored_events: number;
}
