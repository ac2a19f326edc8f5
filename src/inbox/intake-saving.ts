import type { EntityManager } from 'typeorm';
import type { PacketLimit } from '../database/index.js';
import { IntakeRefusedError } from '../errors/intake-refused.error.js';
import { type KnownIds, knownKey } from '../idempotency/index.js';
import type { IntakeStore, Stored } from './intake.store.js';
import type { IntakeQueue, Ticket } from './intake-queue.js';
import { storeTogether } from './intake-split.js';
import type { MessageDraft } from './message-draft.js';
import { packetBytes } from './packet-check.js';

/** Every server takes this much, whatever its max_allowed_packet is: nobody need be asked. */
const alwaysTaken = 8_192;

/** From drafts to committed rows: by the caller's transaction, by group commit, or together for a split push. */
export class IntakeSaving {
  constructor(
    private readonly store: IntakeStore,
    private readonly queue: IntakeQueue,
    private readonly packet: PacketLimit,
    /** Null: the table alone tells duplicates. */
    private readonly known: KnownIds | null,
  ) {}

  /** @throws IntakeRefusedError too-large, before anything is sent, for a row above the server's max_allowed_packet */
  async save(
    drafts: readonly MessageDraft[],
    manager: EntityManager | undefined,
    ticket: Ticket,
  ): Promise<readonly Stored[]> {
    await this.refuseTooLarge(drafts, manager !== undefined);
    if (manager) return this.store.storeWith(manager, drafts);
    const [only] = drafts;
    if (drafts.length === 1 && only) return [await this.storeOne(only, ticket)];
    const stored = await storeTogether(this.store, drafts, ticket, this.packet.bytes);
    for (const [index, { id }] of stored.entries()) this.remember(drafts[index], id);
    return stored;
  }

  private async storeOne(draft: MessageDraft, ticket: Ticket): Promise<Stored> {
    if (this.known && draft.dedupKey !== null) {
      const id = await this.known.find(knownKey(draft.source, draft.dedupKey));
      if (id !== null) return { id, duplicate: true };
    }
    const stored = await this.queue.store(draft, ticket);
    this.remember(draft, stored.id);
    return stored;
  }

  /** After the commit: what is remembered before it would acknowledge a push that is nowhere. */
  private remember(draft: MessageDraft | undefined, id: string): void {
    if (this.known && draft && draft.dedupKey !== null) this.known.remember(knownKey(draft.source, draft.dedupKey), id);
  }

  /** Sent all the same, such a row would end its connection, and its sender would push it again for days. */
  private async refuseTooLarge(drafts: readonly MessageDraft[], asText: boolean): Promise<void> {
    const largest = Math.max(...drafts.map((draft) => packetBytes(draft, asText)));
    if (largest <= alwaysTaken || largest <= (this.packet.bytes ?? 0)) return;
    const limit = await this.packet.ask();
    if (limit === null || largest <= limit) return;
    throw new IntakeRefusedError('too-large', 'the message is larger than the database takes', {
      cause: `max_allowed_packet is ${limit}, the row needs ${largest}`,
    });
  }
}
