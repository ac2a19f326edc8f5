import { localTransport, type OutboxOptions, type WebSocketReceivers, websocketTransport } from '../index.js';
import type { Environment } from './environment.js';
import { imTopic } from './im/im-message.js';

/** Chat messages go to their receiver's sockets, everything else to a handler of this application. */
export function outboxOptions(environment: Environment, receivers: WebSocketReceivers): OutboxOptions {
  const { REDIS_URL, OUTBOX_SEND_TIMEOUT_MS: sendTimeout } = environment;
  return {
    enabled: environment.OUTBOX_ENABLED,
    transports: {
      websocket: websocketTransport({
        receivers,
        ackTimeout: sendTimeout / 2,
        ...(REDIS_URL ? { redis: REDIS_URL } : {}),
      }),
      local: localTransport(),
    },
    route: ({ topic }) => (topic === imTopic ? 'websocket' : 'local'),
    // A push that waits for its client costs a place and nothing else.
    concurrency: 20,
    pollInterval: environment.OUTBOX_POLL_INTERVAL_MS,
    maxRetry: environment.OUTBOX_MAX_RETRY,
    backoff: environment.OUTBOX_BACKOFF_SECONDS.map((seconds) => seconds * 1_000),
    sendTimeout,
    claimTtl: environment.OUTBOX_CLAIM_TTL_MS,
    parkRecheck: environment.OUTBOX_PARK_RECHECK_MS,
    recoveryInterval: environment.INBOX_RECOVERY_INTERVAL_MS,
    shutdown: { deadline: environment.SHUTDOWN_DEADLINE_MS },
  };
}
