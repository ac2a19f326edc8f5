import { AsyncLocalStorage } from 'node:async_hooks';
import type { InboxMessage } from './inbox-message.js';

/** What the code under a handler can ask for without being handed it. */
export interface AmbientMessage {
  readonly messageId: string;
  readonly traceId: string;
}

const ambient = new AsyncLocalStorage<AmbientMessage | undefined>();

/**
 * The message that is being handled in this asynchronous context; undefined outside a handler, and in a batch handler
 * outside `ctx.during()` unless its call has one message only.
 */
export function currentMessage(): AmbientMessage | undefined {
  return ambient.getStore();
}

/** Runs `work` with `message` as the current one. */
export function during<T>(message: InboxMessage, work: () => T): T {
  return ambient.run({ messageId: message.id, traceId: traceIdOf(message) }, work);
}

/** The trace id of a W3C traceparent (version-traceid-parentid-flags), else the request's id, else the message's. */
export function traceIdOf(message: InboxMessage): string {
  try {
    const { traceparent, 'x-request-id': requestId } = message.headers;
    return /^[0-9a-f]{2}-([0-9a-f]{32})-/.exec(traceparent ?? '')?.[1] ?? requestId ?? message.id;
  } catch {
    // Headers that cannot be decoded are the handler's to meet, not a reason to fail before it.
    return message.id;
  }
}
