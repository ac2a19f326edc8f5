import type { EntityOrderStore, PausedKinds } from '../delivery/index.js';
import { entityHash } from '../message/entity-hash.js';
import type { EntityReleaseStore } from './entity-release.store.js';
import { keyBytes } from './message-key.js';
import type { KeyValue } from './source-options.js';

/** A kind that is paused; null stands for every source or every type. */
export interface PausedKind {
  readonly source: string | null;
  readonly type: string | null;
}

/** What a person on call does to a running inbox. */
export class InboxOperations {
  constructor(
    private readonly paused: PausedKinds,
    private readonly releases: EntityReleaseStore,
    private readonly order: EntityOrderStore,
    private readonly wake: () => void,
  ) {}

  pause({ source = null, type = null }: Partial<PausedKind>): readonly PausedKind[] {
    this.paused.add({ source, type });
    return this.paused.list();
  }

  resume({ source = null, type = null }: Partial<PausedKind>): readonly PausedKind[] {
    this.paused.remove({ source, type });
    this.wake();
    return this.paused.list();
  }

  async releaseEntity(source: string, key: KeyValue): Promise<{ readonly released: number }> {
    const bytes = keyBytes(key);
    if (bytes === null)
      throw new RangeError('InboxService.releaseEntity: write the key as the source gives it, not empty');
    const open = entityHash(source, bytes);
    const released = await this.releases.release(open, source, bytes);
    // Also when nothing was released: a call that died between the two steps is made good by the next.
    await this.order.comeBack(open);
    this.wake();
    return { released };
  }
}
