import { randomBytes } from 'node:crypto';
import { ChatScene } from './chat-scene.js';
import { ContractsPart } from './contracts-part.js';
import { CrmPart } from './crm-part.js';
import { createDemoDatabase } from './demo-database.js';
import type { DemoPart, Sent } from './demo-part.js';
import { GithubPart } from './github-part.js';
import { adoptedTable, adoptHistory, consumedHistory, createHistory, historyRows } from './history.js';
import { interruptible } from './interruptible.js';
import { OrdersPart } from './orders-part.js';
import { outcomeOf } from './outcome.js';
import { PoisonPart } from './poison-part.js';
import { Progress } from './progress.js';
import { replayPoison } from './replay-scene.js';
import type { Report } from './report.js';
import { send } from './sender.js';
import { settle } from './settle.js';
import { Supervisor } from './supervisor.js';

const maxRetry = 3;

export interface DemoOptions {
  readonly databaseUrl: string;
  readonly redisUrl: string | undefined;
  readonly say: (line: string) => void;
  /** Aborted by Ctrl-C: what was started is stopped and taken away. */
  readonly signal: AbortSignal;
}

/** Runs the whole demo on a database of its own, with two instances, and takes everything away afterwards. */
export async function runDemo({ databaseUrl, redisUrl, say, signal }: DemoOptions): Promise<Report> {
  const startedAt = performance.now();
  const secrets = { orders: standardSecret(), contracts: standardSecret(), github: randomBytes(24).toString('hex') };
  const database = await createDemoDatabase(databaseUrl);
  const environment = {
    DATABASE_URL: database.url,
    ...(redisUrl ? { REDIS_URL: redisUrl } : {}),
    PORT: '0',
    MIGRATE: 'true',
    INBOX_TABLE: adoptedTable,
    SIMULATE: 'true',
    ADMIN_TOKEN: randomBytes(24).toString('hex'),
    ORDERS_SECRET: secrets.orders,
    GITHUB_SECRET: secrets.github,
    CONTRACTS_SECRET: secrets.contracts,
    INBOX_MAX_RETRY: String(maxRetry),
    INBOX_BACKOFF_SECONDS: '0.2,0.5,1',
    INBOX_ROUND_INTERVAL_MS: '500',
    // The lane of an instance that was killed waits so long for another one.
    LEASE_TTL_MS: '2000',
    INBOX_RECOVERY_INTERVAL_MS: '1000',
    OUTBOX_POLL_INTERVAL_MS: '500',
    OUTBOX_BACKOFF_SECONDS: '0.2,0.5,1',
    OUTBOX_MAX_RETRY: '20',
    OUTBOX_SEND_TIMEOUT_MS: '2000',
    // What a killed instance was sending waits so long for another one.
    OUTBOX_CLAIM_TTL_MS: '3000',
    // Without Redis instances do not know each other's sockets: another one finds the receiver at the re-check.
    OUTBOX_PARK_RECHECK_MS: '1000',
    SHUTDOWN_READINESS_DELAY_MS: '0',
  };
  const supervisor = new Supervisor(['a', 'b'], environment, say);
  const chat = new ChatScene(() => supervisor.alive, signal);
  try {
    say(`a table with ${historyRows} rows of history becomes the inbox, in two phases`);
    await interruptible(createHistory(database.connection), signal);
    await interruptible(adoptHistory(database.url), signal);
    say('two instances start, on one database');
    await interruptible(supervisor.start(), signal);
    // The poison goes first: everything else is pushed at instances that it ends, and handled after it.
    const parts: readonly DemoPart[] = [
      new PoisonPart(secrets.orders, maxRetry + 1),
      new GithubPart(secrets.github),
      new OrdersPart(secrets.orders),
      new ContractsPart(secrets.contracts),
      new CrmPart(),
    ];
    say('a chat begins beside all that; anna is offline');
    const talking = chat.talk();
    const sent = new Map<DemoPart, Sent>();
    for (const part of parts) {
      const deliveries = part.deliveries();
      const progress = new Progress(part.name.padEnd(16), deliveries.length);
      sent.set(
        part,
        await interruptible(
          send(deliveries, () => supervisor.alive, progress.step, signal),
          signal,
        ),
      );
    }
    const killed = await interruptible(settle({ database: database.connection, supervisor, signal, say }), signal);
    await interruptible(talking, signal);
    say('anna comes online');
    await interruptible(chat.end(database.connection), signal);
    const seconds = (performance.now() - startedAt) / 1000;
    const outcome = await outcomeOf(database.connection, { sent, chat, supervisor, killed, seconds });
    say('the handler of the poison is mended, and the message is run again');
    const { replayed, problems } = await interruptible(
      replayPoison(database.connection, () => supervisor.alive, environment.ADMIN_TOKEN, signal),
      signal,
    );
    const fromHistory = await consumedHistory(database.connection);
    return { ...outcome, replayed, fromHistory, problems: [...outcome.problems, ...problems] };
  } finally {
    chat.close();
    await supervisor.stop();
    await database.drop();
  }
}

function standardSecret(): string {
  return `whsec_${randomBytes(24).toString('base64')}`;
}
