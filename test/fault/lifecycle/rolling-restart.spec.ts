// A deployment: three instances of the reference application are replaced one after the other while pushes come in at a
// fixed rate. The sender asks a load balancer that looks at readiness, keeps its connections, and tries once more after a
// 503. ROLLING_RATE (300) pushes a second, ROLLING_ROUNDS (1) times all three.

import { createHmac } from 'node:crypto';
import { Agent, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';
import { launch, listening, type RunningApp, secrets } from '../../support/reference-app.js';
import { waitUntil } from '../../support/wait-until.js';

const perSecond = Number(process.env.ROLLING_RATE ?? 300);
const rounds = Number(process.env.ROLLING_ROUNDS ?? 1);
const deadlineMs = 10_000;

let database: TestDatabase;
let env: Record<string, string>;
const fleet: (RunningApp | undefined)[] = [];
/** A push that waits for a connection would wait for one of an instance that is gone by then: the sender waits instead. */
const mostInWork = 150;
/** Idle connections are given up before the server gives them up, as load balancers are set: else the two may cross. */
const agent = new Agent({ keepAlive: true, timeout: 2_500 });
beforeAll(async () => {
  database = await createTestDatabase('rolling_restart');
  env = {
    ...secrets,
    DATABASE_URL: database.url,
    LEASE_BACKEND: 'database',
    MIGRATE: 'true',
    INBOX_LANES: '4',
    SHUTDOWN_READINESS_DELAY_MS: '3000',
    SHUTDOWN_DEADLINE_MS: String(deadlineMs),
  };
  for (let at = 0; at < 3; at++) fleet[at] = await listening(launch(env));
});
afterAll(async () => {
  agent.destroy();
  for (const app of fleet) await app?.child.kill();
  await database.drop();
});

/** The load balancer: asks each instance for its readiness, again and again. */
class Balancer {
  private readonly ready = new Set<RunningApp>();
  private turn = 0;
  private ended = false;
  private readonly looking = this.look();

  next(): RunningApp | undefined {
    const all = [...this.ready];
    return all[this.turn++ % all.length];
  }

  get size(): number {
    return this.ready.size;
  }

  async end(): Promise<void> {
    this.ended = true;
    await this.looking;
  }

  private async look(): Promise<void> {
    while (!this.ended) {
      await Promise.all(
        fleet.map(async (app) => {
          if (!app) return;
          const response = await fetch(`${app.url}/health/ready`, { signal: AbortSignal.timeout(1_000) }).catch(
            () => null,
          );
          await response?.text().catch(() => undefined);
          if (response?.status === 200) this.ready.add(app);
          else this.ready.delete(app);
        }),
      );
      for (const app of this.ready) if (!fleet.includes(app)) this.ready.delete(app);
      await sleep(100);
    }
  }
}

function post(app: RunningApp, body: string, id: string): Promise<{ status: number; body: string }> {
  const timestamp = String(Math.floor(Date.now() / 1000));
  const key = Buffer.from(secrets.ORDERS_SECRET.slice('whsec_'.length), 'base64');
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64');
  const headers = {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': `v1,${signature}`,
  };
  return new Promise((resolve) => {
    const broken = (error: Error) => resolve({ status: 0, body: error.message });
    const sent = request(`${app.url}/webhooks/orders`, { agent, method: 'POST', headers }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part: string) => {
        text += part;
      });
      response.on('end', () => resolve({ status: response.statusCode ?? 0, body: text })).on('error', broken);
    });
    sent.on('error', broken).end(body);
  });
}

test(`${perSecond} pushes a second while three instances are replaced: no push fails, none is lost, none is applied twice`, async () => {
  const balancer = new Balancer();
  const failures: string[] = [];
  const acknowledged: string[] = [];
  let again = 0;
  let number = 0;
  const inWork = new Set<Promise<void>>();
  const pushOne = async () => {
    const event = number++;
    const body = JSON.stringify({
      eventId: `e-${event}`,
      orderId: `o-${event}`,
      type: 'order.created',
      occurredAt: '2026-01-01T00:00:00Z',
      amount: 1,
    });
    for (let attempt = 1; ; attempt++) {
      const app = balancer.next();
      const answer = app ? await post(app, body, `m-${event}`) : { status: 0, body: 'no instance is ready' };
      if (answer.status === 200) {
        acknowledged.push((JSON.parse(answer.body) as { id: string }).id);
        return;
      }
      if (answer.status !== 503 || attempt === 2) {
        failures.push(`event ${event}, attempt ${attempt}: ${answer.status} ${answer.body}`);
        return;
      }
      again++;
    }
  };
  let pushing = true;
  const send = async () => {
    const startedAt = performance.now();
    while (pushing) {
      const due = Math.floor(((performance.now() - startedAt) / 1_000) * perSecond);
      while (number < due && inWork.size < mostInWork) {
        const push = pushOne();
        inWork.add(push);
        void push.then(() => inWork.delete(push));
      }
      await sleep(10);
    }
    await Promise.all(inWork);
  };
  const slowest: number[] = [];
  await waitUntil(() => balancer.size === 3, { what: 'all three are ready', timeoutMs: 20_000 });
  const sender = send();
  try {
    for (let round = 0; round < rounds; round++) {
      for (let at = 0; at < fleet.length; at++) {
        const old = fleet[at];
        if (!old) throw new Error(`there is no instance ${at}`);
        const startedAt = performance.now();
        old.child.signal('SIGTERM');
        expect(await old.child.ended).toEqual({ code: 0, signal: null });
        slowest.push(performance.now() - startedAt);
        fleet[at] = await listening(launch(env));
        await waitUntil(() => balancer.size === 3, { what: 'the new one is ready', timeoutMs: 20_000 });
      }
    }
  } finally {
    pushing = false;
    await sender;
    await balancer.end();
  }
  expect(failures.slice(0, 5)).toEqual([]);
  expect(Math.max(...slowest)).toBeLessThan(deadlineMs + 3_000);
  expect(acknowledged.length).toBe(number);
  expect(number).toBeGreaterThan(perSecond);
  await waitUntil(
    async () => {
      const [row] = await database.query<{ n: number }>(
        "SELECT COUNT(*) AS n FROM inbox_message WHERE status <> 'success'",
      );
      return row?.n === 0;
    },
    { what: 'everything is handled', timeoutMs: 60_000, intervalMs: 200 },
  );
  const [stored] = await database.query<{ n: number; ids: number }>(
    'SELECT COUNT(*) AS n, COUNT(DISTINCT dedup_key) AS ids FROM inbox_message',
  );
  expect(stored).toEqual({ n: number, ids: number });
  expect(new Set(acknowledged).size).toBe(number);
  const applied = 'SELECT COUNT(*) AS n, CAST(SUM(applied_events) AS SIGNED) AS events FROM demo_order';
  expect(
    (await database.query<{ n: number; events: number }>(applied)).map(({ n, events }) => [n, Number(events)]),
  ).toEqual([[number, number]]);
  process.stderr.write(
    `rolling restart: ${number} pushes, ${again} tried again after a 503, 0 failed; instances gone after ${slowest.map((ms) => Math.round(ms)).join(', ')} ms\n`,
  );
});
