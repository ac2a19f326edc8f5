import { AsyncLocalStorage } from 'node:async_hooks';
import type { Trace } from './tracing/trace.js';

/** What the code under a handler can ask for without being handed it. */
export interface AmbientMessage extends Trace {
  readonly messageId: string;
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
