import { createHmac, randomBytes } from 'node:crypto';
import { type Child, startChild } from './child.js';
import type { TestDatabase } from './database.js';
import { waitUntil } from './wait-until.js';

// The build, as `npm start` runs it: `npm test` builds before.
const script = new URL('../../dist/src/reference-app/main.js', import.meta.url);

export const standardSecret = () => `whsec_${randomBytes(24).toString('base64')}`;

/** The secrets of this test run: with all of them every webhook is mounted. */
export const secrets = {
  ORDERS_SECRET: standardSecret(),
  GITHUB_SECRET: randomBytes(24).toString('hex'),
  CONTRACTS_SECRET: standardSecret(),
};

export interface RunningApp {
  readonly child: Child;
  readonly url: string;
}

/** Starts the reference application. Nothing of the test run's own environment steers it, but what is given here. */
export const launch = (env: Readonly<Record<string, string>>): Child =>
  startChild(script, {
    env: {
      DATABASE_URL: '',
      REDIS_URL: '',
      PORT: '0',
      LEASE_BACKEND: '',
      INBOX_ROUND_INTERVAL_MS: '100',
      INBOX_BACKOFF_SECONDS: '0',
      SHUTDOWN_READINESS_DELAY_MS: '0',
      ...env,
    },
  });

export async function listening(child: Child): Promise<RunningApp> {
  const line = await child.line('"listening"', 40_000);
  return { child, url: (JSON.parse(line) as { url: string }).url };
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: unknown;
}

export async function ask(app: RunningApp, path: string, init: RequestInit = {}): Promise<Answer> {
  const response = await fetch(new URL(path, app.url), { ...init, signal: AbortSignal.timeout(10_000) });
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: text === '' ? null : JSON.parse(text) };
}

export interface Signing {
  readonly id?: string;
  readonly secret?: string;
  readonly changes?: Readonly<Record<string, string>>;
}

/** Pushes to a webhook that is signed as Standard Webhooks says. */
function pushStandard(
  app: RunningApp,
  path: string,
  payload: unknown,
  { id, secret, changes = {} }: Signing & { secret: string },
): Promise<Answer> {
  const body = typeof payload === 'string' ? payload : JSON.stringify(payload);
  const webhookId = id ?? `msg_${randomBytes(8).toString('hex')}`;
  const timestamp = String(Math.floor(Date.now() / 1000));
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  const signature = createHmac('sha256', key).update(`${webhookId}.${timestamp}.${body}`).digest('base64');
  const headers = { 'webhook-id': webhookId, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}` };
  return ask(app, path, { method: 'POST', headers: { ...headers, ...changes }, body });
}

export const pushOrders = (app: RunningApp, payload: unknown, signing: Signing = {}): Promise<Answer> =>
  pushStandard(app, '/webhooks/orders', payload, { secret: secrets.ORDERS_SECRET, ...signing });

export const pushContracts = (app: RunningApp, payload: unknown, signing: Signing = {}): Promise<Answer> =>
  pushStandard(app, '/webhooks/contracts', payload, { secret: secrets.CONTRACTS_SECRET, ...signing });

export function pushGithub(
  app: RunningApp,
  headers: Readonly<Record<string, string>>,
  secret = secrets.GITHUB_SECRET,
): Promise<Answer> {
  const body = '{"zen":"Keep it logically awesome."}';
  const signature = `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`;
  return ask(app, '/webhooks/github', {
    method: 'POST',
    headers: { 'x-hub-signature-256': signature, ...headers },
    body,
  });
}

let events = 0;

/** An order event with an id of its own. */
export const orderEvent = (orderId: string, type: string, more: object = {}) => ({
  eventId: `evt-${++events}`,
  orderId,
  type,
  occurredAt: '2026-01-01T00:00:00Z',
  amount: 1_200,
  ...more,
});

/** The receipt of a message that was stored. */
export const stored = { id: expect.stringMatching(/^\d+$/), duplicate: false, status: 'stored' };

export const idOf = ({ body }: Answer): string => (body as { id: string }).id;

export const storedRows = async (database: TestDatabase): Promise<number | undefined> =>
  (await database.query<{ n: number }>('SELECT COUNT(*) AS n FROM inbox_message'))[0]?.n;

export interface Finished {
  readonly status: string;
  readonly attempts: number;
  readonly error_kind: string | null;
}

/** The message, once it is a success or failed. */
export const finished = (database: TestDatabase, id: unknown): Promise<Finished> =>
  waitUntil(
    async () =>
      (
        await database.query<Finished>(
          "SELECT status, attempts, error_kind FROM inbox_message WHERE id = ? AND status IN ('success', 'failed')",
          [id],
        )
      )[0],
    { what: `message ${id} is finished` },
  );
