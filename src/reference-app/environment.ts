import { z } from 'zod';
import type { InboxTableOption } from '../index.js';

const flag = z.enum(['true', 'false'], { error: "write 'true' or 'false'" }).transform((text) => text === 'true');
const whole = (min: number, max: number) =>
  z.coerce
    .number({ error: `write a whole number from ${min} to ${max}` })
    .int(`write a whole number from ${min} to ${max}`)
    .min(min, `write ${min} or more`)
    .max(max, `write ${max} or less`);
const positive = z.coerce.number({ error: 'write a number above 0' }).positive('write a number above 0');
const secret = z.string().min(16, 'write a secret of 16 characters or more');
const seconds = z
  .string()
  .refine(
    (text) => text.split(',').every((part) => /^\s*\d{1,7}(\.\d+)?\s*$/.test(part)),
    'write seconds with commas between them, such as 30,120,600',
  )
  .transform((text) => text.split(',').map(Number));

/** `inbox.table` as JSON. Its fields are checked with the other options. */
const adoptedTable = z.string().transform((text, context): InboxTableOption => {
  try {
    return JSON.parse(text) as InboxTableOption;
  } catch {
    context.addIssue({
      code: 'custom',
      message: 'write JSON such as {"name":"message_log","columns":{"body":"msgStr"}}',
    });
    return z.NEVER;
  }
});

const schema = z.object({
  PORT: whole(0, 65_535).default(3000),
  HOST: z.string().min(1).default('127.0.0.1'),
  DATABASE_URL: z.url({
    protocol: /^(mysql|mariadb)$/,
    error: 'write a URL such as mysql://user:password@host:3306/database',
  }),
  REDIS_URL: z.url({ protocol: /^rediss?$/, error: 'write a URL such as redis://host:6379' }).optional(),
  LEASE_BACKEND: z.enum(['redis', 'database'], { error: "write 'redis' or 'database'" }).optional(),
  LEASE_TTL_MS: whole(500, 3_600_000).default(30_000),
  ADMIN_TOKEN: secret.optional(),
  ORDERS_SECRET: secret.optional(),
  GITHUB_SECRET: secret.optional(),
  CONTRACTS_SECRET: secret.optional(),
  SIMULATE: flag.default(false),
  MIGRATE: flag.default(false),
  INBOX_ENABLED: flag.default(true),
  INBOX_TABLE: adoptedTable.optional(),
  INBOX_MODE: z.enum(['ordered', 'competing'], { error: "write 'ordered' or 'competing'" }).default('ordered'),
  INBOX_LANES: whole(1, 256).default(1),
  INBOX_BATCH_SIZE: whole(1, 1_000).default(50),
  INBOX_MAX_RETRY: whole(0, 1_000).default(3),
  INBOX_BACKOFF_SECONDS: seconds.prefault('30,120,600'),
  INBOX_ORPHAN_MINUTES: positive.default(5),
  INBOX_HANDLER_TIMEOUT_MS: whole(1, 3_600_000).default(60_000),
  INBOX_ROUND_INTERVAL_MS: whole(10, 3_600_000).default(2_000),
  INBOX_RECOVERY_INTERVAL_MS: whole(100, 3_600_000).default(30_000),
  INTAKE_MAX_IN_FLIGHT: whole(1, 1_000_000).default(1_000),
  INTAKE_RATE_PER_SECOND: whole(1, 1_000_000).optional(),
  INTAKE_MAX_BACKLOG: whole(1, 1_000_000).optional(),
  OUTBOX_ENABLED: flag.default(true),
  OUTBOX_POLL_INTERVAL_MS: whole(10, 3_600_000).default(3_000),
  OUTBOX_MAX_RETRY: whole(0, 1_000).default(5),
  OUTBOX_BACKOFF_SECONDS: seconds.prefault('5,20,80,320,1280'),
  OUTBOX_SEND_TIMEOUT_MS: whole(2_000, 3_600_000).default(10_000),
  OUTBOX_CLAIM_TTL_MS: whole(1_000, 3_600_000).default(60_000),
  OUTBOX_PARK_RECHECK_MS: whole(100, 86_400_000).default(300_000),
  RETENTION_SUCCESS_MINUTES: positive.default(10_080),
  LOG_SAMPLE_RATE: z.coerce.number({ error: 'write a number from 0 to 1' }).min(0).max(1).default(0.01),
  SHUTDOWN_READINESS_DELAY_MS: whole(0, 600_000).default(5_000),
  SHUTDOWN_DEADLINE_MS: whole(1, 3_600_000).default(25_000),
});

/** Every variable that the application reads, for the page that explains them. */
export const variableNames: readonly string[] = Object.keys(schema.shape);

/** The application's environment, checked. */
export type Environment = z.output<typeof schema>;

/** A variable is missing or wrong; the message names it and says what to write. */
export class EnvironmentError extends Error {}

/** @throws EnvironmentError with one line per variable that is wrong; values are not repeated, since some are secrets */
export function readEnvironment(variables: Readonly<Record<string, string | undefined>>): Environment {
  // An empty variable counts as absent: that is how compose files and shells leave one out.
  const given = Object.fromEntries(
    Object.entries(variables).filter(([, value]) => value !== undefined && value !== ''),
  );
  const result = schema.safeParse(given);
  if (!result.success) {
    const problems = result.error.issues.map(({ path, message }) => {
      const name = String(path[0]);
      return `${name}: ${name in given ? message : `is not set; ${message}`}`;
    });
    throw new EnvironmentError(problems.join('\n'));
  }
  if (result.data.LEASE_BACKEND === 'redis' && !result.data.REDIS_URL) {
    throw new EnvironmentError(
      "REDIS_URL: is not set; LEASE_BACKEND is 'redis', so write a URL such as redis://host:6379",
    );
  }
  return result.data;
}

/** Leases are kept in Redis where there is one, unless told otherwise. */
export function leaseBackend({ LEASE_BACKEND, REDIS_URL }: Environment): 'redis' | 'database' {
  return LEASE_BACKEND ?? (REDIS_URL ? 'redis' : 'database');
}
