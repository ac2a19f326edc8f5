import { channel } from 'node:diagnostics_channel';

/** Name of the channel of node:diagnostics_channel on which every event is published too. */
export const eventChannel = 'nestjs-mailroom';

/** What happens inside, as facts after they were committed. Ids and names only: no bodies, no secrets. */
export type MailroomEvent =
  | (ReceivedFacts & { readonly name: 'stored'; readonly durationMs: number })
  | (ReceivedFacts & { readonly name: 'duplicate'; readonly durationMs: number })
  | { readonly name: 'ignored'; readonly source: string; readonly traceId: string }
  | { readonly name: 'refused'; readonly source: string; readonly refusal: string }
  /** Too much waits in the table, or no longer: pushes are refused from now on, or taken again. `limit`: messages or ms. */
  | {
      readonly name: 'intake-backlog';
      readonly reason: 'depth' | 'age';
      readonly limit: number;
      readonly state: 'closed' | 'open';
    }
  /** More than `backlogAlarm` allows has been waiting for a while, or no longer. Counted up to its limit. */
  | {
      readonly name: 'backlog';
      readonly box: 'inbox' | 'outbox';
      readonly state: 'raised' | 'cleared';
      readonly messages: number;
      readonly oldestDueMs: number | null;
    }
  | (MessageFacts & { readonly name: 'succeeded'; readonly durationMs: number; readonly ageMs: number | null })
  | (MessageFacts & {
      readonly name: 'retrying';
      readonly durationMs: number;
      readonly errorKind: string;
      readonly delayMs: number;
    })
  | (MessageFacts & { readonly name: 'failed'; readonly durationMs: number; readonly errorKind: string })
  /** A message of a reorder window was handled after one of its entity with a higher sequence. */
  | (MessageFacts & { readonly name: 'late' })
  | (MessageFacts & { readonly name: 'released' })
  | (MessageFacts & { readonly name: 'claim-lost'; readonly reason: string })
  | (MessageFacts & { readonly name: 'recovered'; readonly status: 'pending' | 'failed' })
  | {
      readonly name: 'put-off';
      readonly source: string;
      readonly type: string;
      readonly count: number;
      readonly reason: string;
    }
  | {
      readonly name: 'breaker';
      readonly source: string;
      readonly type: string;
      readonly state: 'closed' | 'open' | 'half-open';
    }
  | { readonly name: 'transport-breaker'; readonly transport: string; readonly state: 'closed' | 'open' | 'half-open' }
  | (OutgoingFacts & { readonly name: 'sent'; readonly durationMs: number; readonly ageMs: number | null })
  | (OutgoingFacts & {
      readonly name: 'send-retrying';
      readonly durationMs: number;
      readonly errorKind: string;
      readonly delayMs: number;
    })
  | (OutgoingFacts & { readonly name: 'dead'; readonly durationMs: number; readonly errorKind: string })
  | (OutgoingFacts & { readonly name: 'parked' })
  | (OutgoingFacts & { readonly name: 'send-released' })
  | (OutgoingFacts & { readonly name: 'send-lost'; readonly reason: string })
  | (OutgoingFacts & { readonly name: 'send-recovered'; readonly status: 'pending' | 'failed' })
  | { readonly name: 'outbox-put-off'; readonly topic: string; readonly count: number; readonly reason: string }
  | { readonly name: 'relay-pass'; readonly end: string; readonly messages: number; readonly durationMs: number }
  | { readonly name: 'relay-failed'; readonly error: unknown }
  /** Old rows were taken out of a table. */
  | { readonly name: 'purged'; readonly table: string; readonly rows: number; readonly durationMs: number }
  | { readonly name: 'purge-failed'; readonly table: string; readonly error: unknown }
  | { readonly name: 'lease-lost'; readonly lease: string; readonly reason: string }
  | { readonly name: 'lease-renewed'; readonly lease: string; readonly tookMs: number }
  | { readonly name: 'lease-renewal-failed'; readonly lease: string }
  | {
      readonly name: 'round';
      readonly lane: number;
      readonly end: string;
      readonly messages: number;
      readonly durationMs: number;
    }
  | { readonly name: 'round-failed'; readonly lane: number | null; readonly error: unknown };

/** The trace is the push's own; `id` is that of the row, which a duplicate found. */
interface ReceivedFacts {
  readonly id: string;
  readonly source: string;
  readonly type: string;
  readonly traceId: string;
  readonly entity: string | null;
}

/** `entity` is the entity key as the sender gave it, so it may name a person. */
interface MessageFacts {
  readonly id: string;
  readonly source: string;
  readonly type: string;
  readonly attempt: number;
  readonly traceId: string;
  readonly entity: string | null;
}

/** Of a message on its way out: `id` is that of its row, `messageId` the one that its receiver sees. */
interface OutgoingFacts {
  readonly id: string;
  readonly messageId: string;
  readonly topic: string;
  readonly key: string | null;
  readonly receiver: string | null;
  readonly attempt: number;
  readonly traceId: string;
}

export type MailroomEventName = MailroomEvent['name'];
export type MailroomEventOf<N extends MailroomEventName> = Extract<MailroomEvent, { readonly name: N }>;
export type MailroomListener<N extends MailroomEventName> = (event: MailroomEventOf<N>) => void;

/** Every event of the process, for what is not part of the application. */
const everything = channel(eventChannel);

/**
 * The hook for metrics, log lines and paging a person. Listeners run in the emitting call, so they should only count
 * or pass on; one that throws or rejects harms nothing and is dropped silently.
 *
 * @example
 * events.on('failed', (event) => pager.notify(`${event.source}/${event.type} ${event.id}: ${event.errorKind}`));
 */
export class MailroomEvents {
  private readonly listeners = new Map<MailroomEventName, Set<(event: never) => unknown>>();

  /** Returns the function that takes the listener off again. */
  on<N extends MailroomEventName>(name: N, listener: MailroomListener<N>): () => void {
    const listeners = this.listeners.get(name) ?? new Set();
    this.listeners.set(name, listeners.add(listener));
    return () => listeners.delete(listener);
  }

  emit(event: MailroomEvent): void {
    if (everything.hasSubscribers) everything.publish(event);
    const listeners = this.listeners.get(event.name);
    if (!listeners) return;
    for (const listener of listeners) {
      try {
        const returned = listener(event as never);
        if (returned instanceof Promise) returned.catch(() => undefined);
      } catch {
        // A listener must not change what it is told about.
      }
    }
  }
}
