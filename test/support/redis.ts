import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';
import { findRedis } from '../../scripts/servers/installed-program.mjs';
import { removeFolder } from '../../scripts/servers/private-folder.mjs';
import { startPrivateRedis as startRedis } from '../../scripts/servers/private-redis.mjs';
import { redisAt } from '../../scripts/servers/probe.mjs';
import { opened } from './open-resources.js';
import { type PrivateServer, privateServer } from './private-server.js';

/** A part of the shared Redis that only one test file uses. */
export interface TestRedis {
  readonly url: string;
  /** Every key of the test begins with it: give it to the code under test as its namespace. Ends with a colon. */
  readonly prefix: string;
  /** For looking and meddling. It adds no prefix. */
  readonly client: Redis;
  /** The keys under the prefix, without it, sorted. */
  keys(): Promise<string[]>;
  /** Deletes the keys under the prefix and closes the client. The leak check fails a file that does not. */
  drop(): Promise<void>;
}

/** `REDIS_URL`, else 127.0.0.1:6379. */
export function testRedisUrl(): string {
  return process.env.REDIS_URL || 'redis://127.0.0.1:6379';
}

/**
 * Connects to the Redis that all tests share, under a prefix `mailroom_test_<name>_<random>:`.
 * A test that stops, freezes or flushes Redis starts its own with {@link startPrivateRedis}.
 */
export async function connectTestRedis(name: string): Promise<TestRedis> {
  const url = testRedisUrl();
  const prefix = `mailroom_test_${name}_${randomBytes(5).toString('hex')}:`;
  const client = new Redis(url, { lazyConnect: true, retryStrategy: null, maxRetriesPerRequest: 0 });
  await client.connect();
  const fullKeys = () => scan(client, `${prefix}*`);
  const drop = async () => {
    if (client.status === 'ready') {
      const keys = await fullKeys();
      if (keys.length > 0) await client.unlink(...keys);
    }
    client.disconnect();
    closed();
  };
  const closed = opened({ what: `Redis keys ${prefix}`, close: drop });
  return {
    url,
    prefix,
    client,
    keys: async () => (await fullKeys()).map((key) => key.slice(prefix.length)).sort(),
    drop,
  };
}

/** Starts a Redis that only this test file uses, without persistence: a restart forgets everything. */
export async function startPrivateRedis(): Promise<PrivateServer> {
  const program = findRedis();
  if (program === null) throw new Error('startPrivateRedis: no redis-server is installed here');
  const first = await startRedis(program);
  const port = Number(new URL(first.url).port);
  const folders = [first.folder];
  const pidNow = async () => {
    const { pid } = await redisAt('127.0.0.1', port);
    if (pid === null) throw new Error(`the private Redis at port ${port} does not tell its pid`);
    return pid;
  };
  return privateServer({
    name: 'redis',
    url: first.url,
    port,
    firstPid: await pidNow(),
    async restart() {
      const { folder } = await startRedis(program, async () => port);
      folders.push(folder);
      return pidNow();
    },
    remove() {
      for (const folder of folders.splice(0)) removeFolder(folder);
    },
  });
}

async function scan(client: Redis, match: string): Promise<string[]> {
  const found = new Set<string>();
  let cursor = '0';
  do {
    const [next, keys] = await client.scan(cursor, 'MATCH', match, 'COUNT', 1_000);
    for (const key of keys) found.add(key);
    cursor = next;
  } while (cursor !== '0');
  return [...found];
}
