import { Inject, Injectable, type OnModuleDestroy } from '@nestjs/common';
import { Redis } from 'ioredis';
import { type Environment, leaseBackend } from '../environment.js';
import { environmentToken } from '../environment.token.js';

/** Longer than a healthy answer, shorter than the patience of a load balancer. */
const redisTimeoutMs = 1_000;

/** Asks the Redis that keeps the leases, over a connection of its own that reconnects by itself. */
@Injectable()
export class RedisCheck implements OnModuleDestroy {
  private readonly redis: Redis | undefined;

  constructor(@Inject(environmentToken) environment: Environment) {
    if (leaseBackend(environment) !== 'redis' || !environment.REDIS_URL) return;
    this.redis = new Redis(environment.REDIS_URL, {
      // A probe wants to know now: nothing waits for a connection.
      enableOfflineQueue: false,
      maxRetriesPerRequest: 0,
      commandTimeout: redisTimeoutMs,
      // After a failover the address may lead to another server by now.
      reconnectOnError: (error) => error.message.startsWith('READONLY'),
    });
    // Told by the probe; without a listener ioredis prints every failed reconnect.
    this.redis.on('error', () => undefined);
  }

  /** Null where no lease is kept in Redis. Never rejects, and answers within a second. */
  async isUp(): Promise<boolean | null> {
    if (!this.redis) return null;
    // A lease is a write: a server that became a replica answers a PING, and keeps no lease.
    return this.redis.set('mailroom:probe', '1', 'PX', redisTimeoutMs).then(
      () => true,
      () => false,
    );
  }

  onModuleDestroy(): void {
    this.redis?.disconnect();
  }
}
