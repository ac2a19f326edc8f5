import type { EntityManager } from 'typeorm';
import type { PassEnd } from '../delivery/index.js';
import type { Run, Selection } from '../delivery/runs/index.js';
import { InvalidMessageError } from '../errors/invalid-message.error.js';
import { type EnqueueParts, insertMessages } from './enqueue.js';
import { keyBytes, messageRow } from './message-row.js';
import type { DeliveryState, OutboxQueries, OutboxQuery, OutboxStats } from './outbox-queries.js';
import type { Audit, OutboxRuns } from './outbox-runs.js';
import type { OutboxKey, OutgoingMessage } from './outgoing-message.js';
import type { ReceiverStore } from './receiver.store.js';
import type { Relay } from './relay.js';

/** Messages that one call takes at most. */
const mostMessages = 10_000;

/** Enqueues messages in the caller's transaction, and steers their sending. Exported by `OutboxModule`. */
export class OutboxService {
  constructor(
    private readonly parts: EnqueueParts & { wake(): void; carried(): Record<string, string> },
    private readonly relay: Relay,
    private readonly receivers: ReceiverStore,
    private readonly queries: OutboxQueries,
    private readonly runs: OutboxRuns,
  ) {}

  /**
   * Enqueues through the caller's EntityManager: the messages leave if and only if its transaction commits, at least once
   * each. One statement for up to 200 messages; one more for each key with `strictOrder`.
   * @returns the message ids, in order; the same on every attempt, for the receiving side to drop repetitions
   * @throws TransactionRequiredError when the manager has no open transaction
   * @throws InvalidMessageError naming the field; nothing was sent then
   * @example
   * await dataSource.transaction(async (manager) => {
   *   await manager.update(Order, id, { status: 'paid' });
   *   await outbox.enqueue(manager, { topic: 'order.paid', key: id, payload: { id } });
   * });
   */
  async enqueue(manager: EntityManager, messages: OutgoingMessage | readonly OutgoingMessage[]): Promise<string[]> {
    const list: readonly OutgoingMessage[] = isList(messages) ? messages : [messages];
    if (list.length > mostMessages)
      throw new InvalidMessageError('messages', `${list.length} at once; write at most ${mostMessages} in one call`);
    const carried = this.parts.carried();
    const rows = list.map((message) => messageRow(message, carried));
    await insertMessages(manager, rows, this.parts);
    return rows.map(({ messageId }) => messageId);
  }

  /**
   * Somebody can be reached again: its parked messages are due at once, in order. Call it whenever a receiver connects.
   * Returns how many were parked.
   */
  async wakeReceiver(receiver: OutboxKey): Promise<{ readonly woken: number }> {
    const bytes = keyBytes(receiver, 'receiver', 255);
    if (bytes === null) throw new InvalidMessageError('receiver', 'write whom to wake');
    const woken = await this.receivers.wake(bytes);
    this.parts.wake();
    return { woken };
  }

  /** Messages by id, by the business message that they are about, or by receiver: at most 100, the newest first. */
  find(query: OutboxQuery): Promise<DeliveryState[]> {
    return this.queries.find(query);
  }

  /** Counts and the age of the oldest due message. Index look-ups only, whatever the size of the table; no lock. */
  stats(): Promise<OutboxStats> {
    return this.queries.stats();
  }

  /**
   * Sends dead messages again, with all their retries before them, in order of their ids; `status: 'sent'` sends what was
   * sent already, under the same ids. Recorded as a run; each message is archived as it was. Resolves when it is done.
   * @throws InvalidSelectionError for an empty selection without `all: true`
   * @throws OverlappingRunError when another run has some of the messages
   */
  retry(selection: Selection, audit: Audit): Promise<Run> {
    return this.runs.run('replay', selection, audit);
  }

  /** Takes dead messages out of the table, into the archive. Recorded as a run. Their followers go on. */
  discard(selection: Selection, audit: Audit): Promise<Run> {
    return this.runs.run('discard', selection, audit);
  }

  /** One pass of the relay now, whether or not sending is enabled: for tests and scripts. */
  runOnce(): Promise<PassEnd> {
    return this.relay.runOnce();
  }

  /** One pass over what owners left behind and what is parked, now. For tests and scripts. */
  recoverOnce(): Promise<void> {
    return this.relay.tend();
  }
}

function isList(messages: OutgoingMessage | readonly OutgoingMessage[]): messages is readonly OutgoingMessage[] {
  return Array.isArray(messages);
}
