import { AsyncLocalStorage } from 'node:async_hooks';

/** What the code under a handler can ask for without being handed it. */
export interface AmbientMessage {
  readonly messageId: string;
  readonly traceId: string;
  /** The W3C traceparent that came with the message, if any. */
  readonly traceparent?: string | undefined;
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
export function withCurrentMessage<T>(message: AmbientMessage, work: () => T): T {
  return ambient.run(message, work);
}
