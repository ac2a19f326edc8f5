import { withCurrentMessage } from '../observability/index.js';
import type { InboxMessage } from './inbox-message.js';

/** Runs `work` with `message` as the current one. */
export function during<T>(message: InboxMessage, work: () => T): T {
  return withCurrentMessage(
    { messageId: message.id, traceId: traceIdOf(message), traceparent: headersOf(message).traceparent },
    work,
  );
}

/** The trace id of a W3C traceparent (version-traceid-parentid-flags), else the request's id, else the message's. */
export function traceIdOf(message: InboxMessage): string {
  const { traceparent, 'x-request-id': requestId } = headersOf(message);
  return /^[0-9a-f]{2}-([0-9a-f]{32})-/.exec(traceparent ?? '')?.[1] ?? requestId ?? message.id;
}

/** Headers that cannot be decoded are the handler's to meet, not a reason to fail before it. */
function headersOf(message: InboxMessage): Readonly<Record<string, string | undefined>> {
  try {
    return message.headers;
  } catch {
    return {};
  }
}
