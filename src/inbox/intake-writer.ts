import { type ControlConnection, isDeadlock, isLockUnavailable } from '../database/index.js';
import { type IntakeStore, identityOf, isCopy, type Stored } from './intake.store.js';
import type { MessageDraft } from './message-draft.js';

/** What became of one message of a batch. */
export type Written = { readonly stored: Stored } | { readonly error: unknown };

/** Looks at the unique key before the INSERT for so many batches after one that held a duplicate: duplicates come in runs. */
const probedBatches = 64;
/** Lets a key that a stranger's open transaction holds fail at once for so many batches: each would wait a second for it. */
const waryBatches = 64;
/** Deadlocks and races with a purge, in one batch, before it is given up. */
const attempts = 5;

/** 1406, 1366, 1264, 3140, 3819 (MySQL) and 4025 (MariaDB, both a CHECK): a value does not fit. 1153, 1301: the packet is too large. One row is to blame. */
const rowErrors = new Set([1406, 1366, 1264, 3140, 3819, 4025, 1153, 1301]);

/**
 * Stores independent messages together: one statement where all goes well, and in every other case each message gets
 * the result that it would have got alone.
 */
export class IntakeWriter {
  private probe = 0;
  private wary = 0;

  constructor(private readonly store: Pick<IntakeStore, 'insertCommitted' | 'firstCopies'>) {}

  /** @throws when it is not known what was stored: then for none of the batch */
  async write(connection: ControlConnection, drafts: readonly MessageDraft[]): Promise<Written[]> {
    const batch = new Batch(drafts);
    if (this.wary > 0) {
      this.wary--;
      await this.setLockedAside(connection, batch, batch.leaders());
    } else if (this.probe > 0) {
      this.probe--;
      batch.found(await this.store.firstCopies(connection, batch.leaders()));
    }
    let next = batch.leaders();
    while (next.length > 0) {
      await this.insert(connection, batch, next);
      next = batch.promoted();
    }
    return batch.results();
  }

  private async insert(connection: ControlConnection, batch: Batch, given: readonly MessageDraft[]): Promise<void> {
    let drafts = given;
    let lockWaits = 0;
    for (let attempt = 1; drafts.length > 0; attempt++) {
      try {
        batch.inserted(drafts, await this.store.insertCommitted(connection, drafts));
        return;
      } catch (error) {
        if (attempt === attempts) throw error;
        if (isCopy(error)) {
          this.probe = probedBatches;
          batch.found(await this.store.firstCopies(connection, drafts));
        } else if (isDeadlock(error)) {
          drafts = inKeyOrder(drafts);
        } else if (isLockUnavailable(error)) {
          // Twice: a gap is locked, as beside a purged copy of a key that somebody inserts. No look-up tells which row waits.
          if (++lockWaits === 2) return batch.failed(drafts, error);
          this.wary = waryBatches;
          await this.setLockedAside(connection, batch, drafts);
        } else if (isRowError(error)) {
          return this.insertHalves(connection, batch, drafts, error);
        } else {
          throw error;
        }
        drafts = drafts.filter((draft) => batch.isOpen(draft));
      }
    }
  }

  private async insertHalves(
    connection: ControlConnection,
    batch: Batch,
    drafts: readonly MessageDraft[],
    error: unknown,
  ): Promise<void> {
    if (drafts.length === 1) return batch.failed(drafts, error);
    const middle = drafts.length >> 1;
    await this.insert(connection, batch, drafts.slice(0, middle));
    await this.insert(connection, batch, drafts.slice(middle));
  }

  /** A key in somebody's open transaction (`receive({ manager })`) cannot be decided now: its sender pushes again. */
  private async setLockedAside(
    connection: ControlConnection,
    batch: Batch,
    drafts: readonly MessageDraft[],
  ): Promise<void> {
    try {
      batch.found(await this.store.firstCopies(connection, drafts, 'FOR UPDATE NOWAIT'));
    } catch (error) {
      if (!isLockUnavailable(error)) throw error;
      if (drafts.length === 1) return batch.failed(drafts, error);
      const middle = drafts.length >> 1;
      await this.setLockedAside(connection, batch, drafts.slice(0, middle));
      await this.setLockedAside(connection, batch, drafts.slice(middle));
    }
  }
}

/** The messages of a batch and what is known of each. Of several copies the first is stored; the others follow it. */
class Batch {
  private readonly written = new Map<MessageDraft, Written>();
  private readonly leaderOf = new Map<string, MessageDraft>();

  constructor(private readonly drafts: readonly MessageDraft[]) {
    for (const draft of drafts) {
      const identity = identityOf(draft);
      if (identity !== null && !this.leaderOf.has(identity)) this.leaderOf.set(identity, draft);
    }
  }

  leaders(): MessageDraft[] {
    return this.drafts.filter((draft) => this.leader(draft) === draft && this.isOpen(draft));
  }

  isOpen(draft: MessageDraft): boolean {
    return !this.written.has(draft);
  }

  inserted(drafts: readonly MessageDraft[], ids: readonly string[]): void {
    for (const [index, draft] of drafts.entries()) {
      this.written.set(draft, { stored: { id: ids[index] as string, duplicate: false } });
    }
  }

  found(firstIds: ReadonlyMap<string, string>): void {
    for (const [identity, id] of firstIds) {
      const draft = this.leaderOf.get(identity);
      if (draft) this.written.set(draft, { stored: { id, duplicate: true } });
    }
  }

  failed(drafts: readonly MessageDraft[], error: unknown): void {
    for (const draft of drafts) this.written.set(draft, { error });
  }

  /** The next copy of each message that could not be stored: it may have another body, so it stands for itself. */
  promoted(): MessageDraft[] {
    const promoted: MessageDraft[] = [];
    for (const draft of this.drafts) {
      const identity = identityOf(draft);
      const leader = this.leader(draft);
      if (identity === null || leader === draft || !this.isOpen(draft)) continue;
      const written = this.written.get(leader);
      if (!written || !('error' in written) || !isRowError(written.error)) continue;
      this.leaderOf.set(identity, draft);
      promoted.push(draft);
    }
    return promoted;
  }

  results(): Written[] {
    return this.drafts.map((draft) => {
      const own = this.written.get(draft);
      if (own) return own;
      const leader = this.leader(draft);
      const written = this.written.get(leader) as Written;
      if ('error' in written) return written;
      return { stored: { id: written.stored.id, duplicate: true } };
    });
  }

  private leader(draft: MessageDraft): MessageDraft {
    const identity = identityOf(draft);
    return identity === null ? draft : (this.leaderOf.get(identity) ?? draft);
  }
}

/** Two batches that hold the same keys take them in the same order and cannot lock each other out again. */
function inKeyOrder(drafts: readonly MessageDraft[]): MessageDraft[] {
  return [...drafts].sort(
    (a, b) =>
      Number(a.source > b.source) - Number(a.source < b.source) ||
      (a.dedupKey && b.dedupKey ? a.dedupKey.compare(b.dedupKey) : 0),
  );
}

function isRowError(error: unknown): boolean {
  return rowErrors.has(Number((error as { errno?: unknown } | null)?.errno));
}
