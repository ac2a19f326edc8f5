import type { Logger } from '@nestjs/common';
import type { BatchRules, BatchTools, Candidate, LaneHandler } from '../delivery/index.js';
import type { RegisteredBatch } from './handler-registry.js';
import type { InFlight } from './in-flight.js';
import type { InboxBatchContext } from './inbox-batch-context.js';
import { InboxMessage, type StoredMessage } from './inbox-message.js';

/** From stored messages to a batch handler. One message alone is a batch of one. */
export function bindBatch(
  batch: RegisteredBatch,
  logger: Logger,
  withBody: (candidate: Candidate) => Promise<StoredMessage>,
  inFlight: InFlight,
): Pick<LaneHandler, 'batch' | 'invoke'> {
  const invoke: BatchRules['invoke'] = async (candidates, tools) => {
    const messages: InboxMessage[] = [];
    const attempts = new Map<string, number>();
    for (const candidate of candidates) {
      messages.push(new InboxMessage(await withBody(candidate)));
      attempts.set(candidate.id, Number(candidate.attempts) + 1);
    }
    const attemptOf = ({ id }: InboxMessage) => attempts.get(id) ?? 1;
    tools.started();
    let call = async (): Promise<unknown> => batch.call(messages, contextOf(tools, logger, attemptOf));
    for (const message of messages) {
      const { id, source, type } = message;
      const inner = call;
      call = () => inFlight.during({ id, source, type, attempt: attemptOf(message) }, inner);
    }
    await call();
  };
  return {
    batch: {
      size: batch.size,
      maxWaitMs: batch.maxWaitMs,
      onFailure: batch.onFailure,
      groupOf: (candidate) => groupOf(batch, candidate),
      invoke,
    },
    invoke: async (candidate, tools) => {
      let failure: { readonly error: unknown } | undefined;
      await invoke([candidate], {
        manager: () => tools.manager(),
        signal: tools.signal,
        started: () => tools.started?.(),
        fail: (_id, error) => {
          failure = { error };
        },
      });
      if (failure) throw failure.error;
    },
  };
}

function contextOf(tools: BatchTools, logger: Logger, attemptOf: InboxBatchContext['attemptOf']): InboxBatchContext {
  return {
    get manager() {
      return tools.manager();
    },
    signal: tools.signal,
    logger,
    attemptOf,
    fail: (message, error) => tools.fail(message.id, error),
  };
}

/** A body that was left out when the message was read ahead, or cannot be decoded: the message is a group of its own. */
function groupOf({ groupBy }: RegisteredBatch, candidate: Candidate): string | null {
  if (!groupBy) return null;
  try {
    return `of:${groupBy(new InboxMessage(candidate as Candidate & StoredMessage))}`;
  } catch {
    return `alone:${candidate.id}`;
  }
}
