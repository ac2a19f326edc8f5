import { createHmac, createSecretKey, type KeyObject } from 'node:crypto';

/** A push as an order centre sends it: a small JSON event and a Standard Webhooks signature. */
export interface OrderPush {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface OrderPushOptions {
  /** `whsec_` and base64. */
  readonly secret: string;
  /** Begins the ids of all events, so that no other run has the same. */
  readonly prefix: string;
  /** As JSON. Default: a text, as some order centres send it. */
  readonly amount?: string;
}

/** Orders that the events are about. */
const orders = 5_000;

/** Makes signed pushes. The same number gives the same event: a re-push, signed again. */
export class OrderPushes {
  private readonly key: KeyObject;
  private second = 0;
  private timestamp = '';
  private iso = '';

  constructor(private readonly options: OrderPushOptions) {
    this.key = createSecretKey(Buffer.from(options.secret.slice('whsec_'.length), 'base64'));
  }

  eventId(event: number): string {
    return `${this.options.prefix}-${event}`;
  }

  make(event: number): OrderPush {
    this.tick();
    const id = this.eventId(event);
    const { amount = '"128.50"' } = this.options;
    const body = `{"eventId":"${id}","orderId":"SO-2026-${event % orders}","type":"order.paid","occurredAt":"${this.iso}","amount":${amount},"currency":"CNY","channel":"wechat","items":[{"sku":"A-1001","quantity":2,"price":"50.00"},{"sku":"B-2002","quantity":1,"price":"28.50"}]}`;
    const signature = createHmac('sha256', this.key).update(`${id}.${this.timestamp}.${body}`).digest('base64');
    return {
      headers: {
        'content-type': 'application/json',
        'user-agent': 'order-centre/2.4',
        'webhook-id': id,
        'webhook-timestamp': this.timestamp,
        'webhook-signature': `v1,${signature}`,
      },
      body,
    };
  }

  private tick(): void {
    const now = Date.now();
    const second = Math.floor(now / 1000);
    if (second === this.second) return;
    this.second = second;
    this.timestamp = String(second);
    this.iso = new Date(second * 1000).toISOString();
  }
}
