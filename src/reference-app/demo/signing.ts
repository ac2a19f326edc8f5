import { createHmac } from 'node:crypto';

/** Headers of a push that is signed as Standard Webhooks says. @param secret `whsec_` and base64 */
export function standardWebhookHeaders(secret: string, id: string, body: Buffer): Record<string, string> {
  const timestamp = Math.floor(Date.now() / 1000).toString();
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64');
  return {
    'content-type': 'application/json',
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': `v1,${signature}`,
  };
}

/** Headers of a webhook as GitHub sends it. */
export function githubHeaders(secret: string, event: string, deliveryId: string, body: Buffer): Record<string, string> {
  return {
    'content-type': 'application/json',
    'x-github-event': event,
    'x-github-delivery': deliveryId,
    'x-hub-signature-256': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`,
  };
}
