import { type Trace, traceOf, withCurrentMessage } from '../observability/index.js';
import type { InboxMessage } from './inbox-message.js';

/** Runs `work` with `message` as the current one. */
export function during<T>(message: InboxMessage, work: () => T, trace: Trace = traceOfMessage(message)): T {
  return withCurrentMessage({ messageId: message.id, ...trace }, work);
}

/** Headers that cannot be decoded are the handler's to meet, not a reason to fail before it. */
function traceOfMessage(message: InboxMessage): Trace {
  try {
    return traceOf(message.headers, message.id);
  } catch {
    return { traceId: message.id };
  }
}
