import type { ControlConnection } from '../database/index.js';
import { DatabaseUnavailableError } from '../errors/database-unavailable.error.js';
import { type IntakeStore, identityOf, isCopy, type Stored } from './intake.store.js';
import type { Ticket } from './intake-queue.js';
import type { MessageDraft } from './message-draft.js';
import { statementBytes } from './packet-check.js';

/** Rows and bytes of one statement; a transaction holds as many statements as the push needs. */
const mostRows = 100;
const mostBytes = 1_048_576;
/** How often a copy may be purged between being met and being looked for. */
const attempts = 3;

/**
 * Stores the messages of one push in one transaction, all or nothing, with ids in the order of the push. Two pushes
 * that hold the same keys in another order may deadlock: the loser is run again and then finds the winner's rows.
 * @throws DatabaseUnavailableError when the ticket was withdrawn before the first statement
 */
export function storeTogether(
  store: IntakeStore,
  drafts: readonly MessageDraft[],
  ticket: Ticket,
  packetLimit: number | null = null,
): Promise<Stored[]> {
  return store.transaction(async (tx) => {
    if (ticket.withdrawn) throw new DatabaseUnavailableError('withdrawn');
    const ids = new Map<string, string>();
    const stored: Stored[] = [];
    for (const part of partsOf(drafts, statementBytes(mostBytes, packetLimit)))
      stored.push(...(await insertPart(store, tx, part, ids)));
    return stored;
  });
}

/** `ids` are those of the keys that are known already: stored before, or by this push. */
async function insertPart(
  store: IntakeStore,
  tx: ControlConnection,
  part: readonly MessageDraft[],
  ids: Map<string, string>,
): Promise<Stored[]> {
  for (let attempt = 1; ; attempt++) {
    const fresh = firstOfEach(part, ids);
    try {
      const inserted = fresh.length === 0 ? [] : await store.insert(tx, fresh);
      const own = new Map(fresh.map((draft, index) => [draft, inserted[index] as string]));
      for (const [draft, id] of own) {
        const identity = identityOf(draft);
        if (identity !== null) ids.set(identity, id);
      }
      return part.map((draft) => {
        const id = own.get(draft);
        return id === undefined
          ? { id: ids.get(identityOf(draft) ?? '') as string, duplicate: true }
          : { id, duplicate: false };
      });
    } catch (error) {
      if (!isCopy(error) || attempt > attempts) throw error;
      for (const [identity, id] of await store.firstCopies(tx, fresh, 'FOR UPDATE')) ids.set(identity, id);
    }
  }
}

function firstOfEach(part: readonly MessageDraft[], ids: ReadonlyMap<string, string>): MessageDraft[] {
  const seen = new Set<string>();
  return part.filter((draft) => {
    const identity = identityOf(draft);
    if (identity === null) return true;
    if (ids.has(identity) || seen.has(identity)) return false;
    seen.add(identity);
    return true;
  });
}

function partsOf(drafts: readonly MessageDraft[], most: number): MessageDraft[][] {
  const parts: MessageDraft[][] = [];
  let bytes = 0;
  for (const draft of drafts) {
    const last = parts.at(-1);
    const size = draft.body.length + (draft.headers?.length ?? 0);
    bytes += size;
    if (last && last.length < mostRows && bytes <= most) {
      last.push(draft);
    } else {
      parts.push([draft]);
      bytes = size;
    }
  }
  return parts;
}
