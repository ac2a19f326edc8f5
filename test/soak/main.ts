// Steady traffic and faults on the reference application for minutes, on the servers of DATABASE_URL and REDIS_URL.
// scripts/soak.mjs starts it. The exit code is 1 when something grew, was lost or was applied twice.

import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { createConnection, type RowDataPacket } from 'mysql2/promise';
import { OrderPushes } from '../bench/load/order-push.js';
import { startChild } from '../support/child.js';
import { createTestDatabase } from '../support/database.js';
import { httpPusher } from '../support/http-pusher.js';
import { chartOf, trendOf } from './trend.js';

const { values } = parseArgs({ options: { minutes: { type: 'string' }, rate: { type: 'string' } } });
const minutes = Number(values.minutes ?? 10);
const perSecond = Number(values.rate ?? 50);
const everyMs = 10_000;
/** Between two faults. */
const faultEveryMs = 15_000;

/**
 * What may climb in all after the warm-up, whatever the length: beyond it, it is growth. A fault may close all connections right
 * before the first sample that counts, so a whole pool may come back.
 */
const allowed = { rssMib: 30, heapMib: 8, handles: 20, timers: 20, connections: 20 } as const;
type Sample = { readonly [name in keyof typeof allowed]: number };

const secret = `whsec_${randomBytes(24).toString('base64')}`;
const database = await createTestDatabase('soak');
const app = startChild(new URL('./app.ts', import.meta.url), {
  env: {
    DATABASE_URL: database.url,
    REDIS_URL: process.env.REDIS_URL ?? '',
    PORT: '0',
    MIGRATE: 'true',
    ORDERS_SECRET: secret,
    SIMULATE: 'true',
    // A killed connection costs its message an attempt.
    INBOX_MAX_RETRY: '50',
    INBOX_BACKOFF_SECONDS: '1',
    INBOX_RECOVERY_INTERVAL_MS: '1000',
    LEASE_TTL_MS: '5000',
    SHUTDOWN_READINESS_DELAY_MS: '0',
  },
});
const print = (line: string) => process.stdout.write(`${line}\n`);
const events = new OrderPushes({ secret, prefix: 'soak', amount: '12850' });
const samples: Sample[] = [];
const answers = { taken: 0, refused: 0, broken: 0 };
const taken = new Set<number>();
/** By HTTP status. */
const refusals: Record<string, number> = {};
let ending = false;
let correct = true;

const server = await createConnection({ uri: database.url });
const one = async <T>(sql: string, bound: unknown[] = []) =>
  ((await server.query<RowDataPacket[]>(sql, bound))[0][0] ?? {}) as T;

try {
  const url = (await app.line('ready ', 60_000)).slice('ready '.length);
  const pusher = httpPusher(`${url}/webhooks/orders`);
  try {
    const traffic = push(pusher);
    const faults = disturb();
    await observe();
    ending = true;
    await Promise.all([traffic, faults]);
    await settle();
  } finally {
    ending = true;
    pusher.close();
  }
  report();
  app.signal('SIGTERM');
  const end = await Promise.race([app.ended, sleep(30_000, null, { ref: false })]);
  verdict('the application ends at SIGTERM', end?.code === 0, JSON.stringify(end));
} finally {
  await app.kill();
  await server.end();
  await database.drop();
}
process.exitCode = correct ? 0 : 1;

/** At a fixed rate, whatever the answers are: a fifth are events that were sent before, and some cannot be read. */
async function push(pusher: ReturnType<typeof httpPusher>): Promise<void> {
  const startedAt = performance.now();
  const inWork = new Set<Promise<void>>();
  let sent = 0;
  for (let event = 0; !ending; ) {
    for (const due = ((performance.now() - startedAt) / 1_000) * perSecond; sent < due; sent++) {
      const number = sent % 5 === 4 ? Math.max(0, event - 20) : event++;
      const work = pushOne(pusher, number, sent % 50 === 49).finally(() => inWork.delete(work));
      inWork.add(work);
    }
    await sleep(10);
  }
  await Promise.all(inWork);
}

async function pushOne(pusher: ReturnType<typeof httpPusher>, event: number, spoiled: boolean): Promise<void> {
  const { headers, body } = events.make(event);
  const answer = await pusher.push(body, {
    headers: spoiled ? { ...headers, 'webhook-signature': 'v1,bad' } : headers,
  });
  if (answer === null) answers.broken++;
  else if (answer.status === 200) {
    answers.taken++;
    taken.add(event);
  } else {
    answers.refused++;
    refusals[answer.status] = (refusals[answer.status] ?? 0) + 1;
  }
}

/** In turns: two connections to the database are killed, then all of them. */
async function disturb(): Promise<void> {
  const { id: own } = await one<{ id: number }>('SELECT CONNECTION_ID() AS id');
  for (let turn = 0; !ending; turn++) {
    for (let waited = 0; waited < faultEveryMs && !ending; waited += 250) await sleep(250);
    const [rows] = await server.query<RowDataPacket[]>(
      'SELECT id FROM information_schema.processlist WHERE db = ? AND id <> ?',
      [database.name, own],
    );
    for (const { id } of rows.slice(0, turn % 2 === 0 ? 2 : rows.length))
      await server.query('KILL ?', [id]).catch(() => undefined);
  }
}

async function observe(): Promise<void> {
  const count = Math.max(6, Math.round((minutes * 60_000) / everyMs));
  const startedAt = performance.now();
  for (let at = 1; at <= count; at++) {
    await sleep(Math.max(0, startedAt + at * everyMs - performance.now()));
    app.send('sample');
    const seen = JSON.parse(await app.line('{"rssMib"', 30_000)) as Omit<Sample, 'connections'>;
    const { n } = await one<{ n: number }>('SELECT COUNT(*) AS n FROM information_schema.processlist WHERE db = ?', [
      database.name,
    ]);
    samples.push({ ...seen, connections: n });
    print(`${String((at * everyMs) / 1_000).padStart(5)} s  ${JSON.stringify(samples.at(-1))}`);
  }
}

/** What was taken in is handled, once. */
async function settle(): Promise<void> {
  const until = performance.now() + 120_000;
  for (;;) {
    const { n } = await one<{ n: number }>(
      "SELECT COUNT(*) AS n FROM inbox_message WHERE status NOT IN ('success', 'failed')",
    );
    if (n === 0 || performance.now() > until) break;
    await sleep(500);
  }
  const { good, all } = await one<{ good: string; all: number }>(
    "SELECT CAST(COALESCE(SUM(status = 'success'), 0) AS CHAR) AS good, COUNT(*) AS `all` FROM inbox_message",
  );
  const [rows] = await server.query<RowDataPacket[]>('SELECT CAST(dedup_key AS CHAR) AS id FROM inbox_message');
  const stored = new Set(rows.map(({ id }) => id as string));
  const lost = [...taken].filter((event) => !stored.has(events.eventId(event))).length;
  const { n: applied } = await one<{ n: string }>(
    'SELECT CAST(COALESCE(SUM(applied_events + ignored_events), 0) AS CHAR) AS n FROM demo_order',
  );
  print(
    `\npushes taken ${answers.taken}, refused ${answers.refused} ${JSON.stringify(refusals)}, broken off ${answers.broken}; messages ${all}`,
  );
  const sent = answers.taken + answers.refused + answers.broken;
  verdict('most pushes are taken', answers.taken > sent / 2, `${answers.taken} of ${sent}`);
  verdict('no acknowledged push is lost', lost === 0, `${lost} lost`);
  verdict('every message is a success', Number(good) === all, `${good} of ${all}`);
  verdict('each was applied once', Number(applied) === all, `${applied} applied`);
}

function report(): void {
  print('');
  for (const name of Object.keys(allowed) as (keyof typeof allowed)[]) {
    const series = samples.map((sample) => sample[name]);
    const { first, last, perMinute, climb, noise, grows } = trendOf(series, everyMs, allowed[name]);
    print(
      `${name.padEnd(12)} ${chartOf(series)}  ${first} -> ${last}, ${perMinute.toFixed(2)} a minute, noise ${noise.toFixed(2)}`,
    );
    verdict(`${name} does not grow`, !grows, `climbed ${climb.toFixed(1)}, allowed ${allowed[name]}`);
  }
}

function verdict(promise: string, ok: boolean, detail: string): void {
  correct &&= ok;
  print(`${ok ? 'ok  ' : 'FAIL'} ${promise}${ok ? '' : `: ${detail}`}`);
}
