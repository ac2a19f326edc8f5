import type { Connection } from 'mysql2/promise';
import type { OrderEvent } from '../orders/order-event.js';
import type { Delivery, DemoPart, Sent, Verdict } from './demo-part.js';
import { standardWebhookHeaders } from './signing.js';

const eventId = 'evt-poison';
const orderId = 'order-poison';

/** One message that ends the process of every instance that handles it, until its attempts are used up. */
export class PoisonPart implements DemoPart {
  readonly name = 'poison';
  readonly source = 'orders';

  /** @param attempts how often the inbox starts a message: its retries and the first one */
  constructor(
    private readonly secret: string,
    private readonly attempts: number,
  ) {}

  deliveries(): readonly Delivery[] {
    const event: OrderEvent & { simulate: object } = {
      eventId,
      orderId,
      type: 'order.created',
      occurredAt: '2026-01-01T00:00:00Z',
      amount: 1,
      simulate: { crash: true },
    };
    const body = Buffer.from(JSON.stringify(event));
    const headers = standardWebhookHeaders(this.secret, `msg_${eventId}`, body);
    return [{ chain: orderId, path: '/webhooks/orders', headers, body }];
  }

  async verify(database: Connection, _sent: Sent): Promise<Verdict> {
    const [rows] = await database.query(
      'SELECT status, attempts, error_kind AS kind FROM message_log WHERE source = ? AND dedup_key = ?',
      [this.source, eventId],
    );
    const found = JSON.stringify(rows);
    const wanted = JSON.stringify([{ status: 'failed', attempts: this.attempts, kind: 'crashed' }]);
    const [effects] = await database.query('SELECT order_id FROM demo_order WHERE order_id = ?', [orderId]);
    const problems = found === wanted ? [] : [`the poison message should be ${wanted}, found ${found}`];
    const appliedTwice = (effects as unknown[]).length;
    if (appliedTwice > 0) problems.push('the poison message left an order behind');
    return { lost: 0, appliedTwice, plannedFailures: 1, plannedCrashes: this.attempts, problems };
  }
}
