import type { Logger } from '@nestjs/common';
import { type BatchRules, type BatchTools, type Candidate, type LaneHandler, storedTrace } from '../delivery/index.js';
import type { Tracing } from '../observability/index.js';
import { during } from './ambient-message.js';
import type { RegisteredBatch } from './handler-registry.js';
import type { InFlight } from './in-flight.js';
import type { InboxBatchContext } from './inbox-batch-context.js';
import { InboxMessage, type StoredMessage } from './inbox-message.js';

/** A message as it was read ahead: a large body was left out. */
type ReadAhead = Candidate & { readonly body_bytes?: number | string | null };

/** From stored messages to a batch handler. One message alone is a batch of one. */
export function bindBatch(
  batch: RegisteredBatch,
  logger: Logger,
  withBody: (candidate: Candidate) => Promise<StoredMessage>,
  inFlight: InFlight,
  tracing: Tracing,
): Pick<LaneHandler, 'batch' | 'invoke'> {
  const invoke: BatchRules['invoke'] = async (candidates, tools) => {
    const messages: InboxMessage[] = [];
    const attempts = new Map<string, number>();
    for (const candidate of candidates) {
      messages.push(new InboxMessage(await withBody(candidate)));
      attempts.set(candidate.id, Number(candidate.attempts) + 1);
    }
    const attemptOf = ({ id }: InboxMessage) => attempts.get(id) ?? 1;
    batch.callSize.add(messages.length);
    tools.started();
    let call = async (): Promise<unknown> => batch.call(messages, contextOf(tools, logger, attemptOf));
    for (const message of messages) {
      const { id, source, type } = message;
      const inner = call;
      call = () => inFlight.during({ id, source, type, attempt: attemptOf(message) }, inner);
    }
    const [only] = messages;
    const all = call;
    await tracing.attempt(
      {
        box: 'inbox',
        operation: 'handle',
        destination: only?.source ?? '',
        type: only?.type ?? '',
        messages: candidates.map((candidate) => ({
          id: candidate.id,
          messageId: candidate.id,
          attempt: attempts.get(candidate.id) ?? 1,
          trace: storedTrace(candidate),
        })),
      },
      async () => (only && messages.length === 1 ? during(only, all) : all()),
    );
  };
  return {
    batch: {
      size: batch.size,
      maxWaitMs: batch.maxWaitMs,
      onFailure: batch.onFailure,
      groupOf: groupsBy(batch, withBody),
      bytesOf: (candidate) => Number((candidate as ReadAhead).body_bytes ?? 0),
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
    during,
    fail: (message, error) => tools.fail(message.id, error),
  };
}

/** Asked more than once for a message, so it remembers; a body that was left out is fetched for it, and not kept. */
function groupsBy(
  { groupBy }: RegisteredBatch,
  withBody: (candidate: Candidate) => Promise<StoredMessage>,
): BatchRules['groupOf'] {
  const known = new WeakMap<Candidate, string>();
  return async (candidate) => {
    if (!groupBy) return null;
    const group = known.get(candidate) ?? groupOf(new InboxMessage(await withBody(candidate)), groupBy);
    known.set(candidate, group);
    return group;
  };
}

/** A message whose group cannot be told, since its body cannot be decoded, is a group of its own. */
function groupOf(message: InboxMessage, groupBy: NonNullable<RegisteredBatch['groupBy']>): string {
  try {
    return `of:${groupBy(message)}`;
  } catch {
    return `alone:${message.id}`;
  }
}
