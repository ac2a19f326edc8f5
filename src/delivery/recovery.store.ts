import { setTimeout as sleep } from 'node:timers/promises';
import type { ControlConnection, ControlPool, Row } from '../database/index.js';
import { type BoxTable, inLane } from './box-table.js';
import { crashedKind, orphanedKind, ranAlone } from './candidate.js';
import type { ToldMessage } from './message-facts.js';

/** Messages that one transaction recovers at most. */
export const recoveryBatch = 100;
/**
 * How often a new holder looks again for orphans that another transaction has locked, and the pause between two looks.
 * Less: it begins behind a message that another instance is just giving back. More: somebody who locks such a row for long
 * keeps the lane from everybody.
 */
const looksForLocked = 20;
const lookPauseMs = 50;

export interface Orphan extends Row, ToldMessage {
  readonly attempts: string;
  readonly open: string | null;
  readonly claimed_by: string | null;
  readonly token: Buffer | null;
}

/** What recovery must know of a message's handler; instances without that handler use the defaults. */
export interface RecoveryPolicy {
  maxRetryOf(source: string, type: string): number;
  parksOn(source: string): boolean;
}

export interface Recovered {
  readonly orphan: Orphan;
  readonly status: 'pending' | 'failed';
}

/** Returns messages whose owner is gone. The claim counted the attempt, so recovery adds none. */
export class RecoveryStore {
  constructor(
    private readonly pool: ControlPool,
    private readonly table: BoxTable,
    private readonly policy: RecoveryPolicy,
  ) {}

  /** A batch of orphans of any lane whose claim has run out. Its own transaction. */
  recoverExpired(): Promise<Recovered[]> {
    return this.pool.transaction((tx) => this.recover(tx, '', []));
  }

  /**
   * The orphans of one lane, in the transaction that changes its holder: claims end with the lease at the latest, so
   * whatever ran under the former holder is among them. One that another transaction has locked is most likely being
   * given back by another instance at this moment; it is waited for, at most 1 s, so that the lane goes on with it.
   */
  async recoverLane(tx: ControlConnection, lane: number): Promise<Recovered[]> {
    const { sql, values } = inLane(this.table, lane);
    const recovered: Recovered[] = [];
    for (let looks = 0; looks < looksForLocked && (await this.anyOrphan(tx, sql, values)); ) {
      const batch = await this.recover(tx, sql, values);
      recovered.push(...batch);
      if (batch.length > 0) continue;
      looks++;
      await sleep(lookPauseMs);
    }
    return recovered;
  }

  /** Locks nothing, so it sees orphans that another transaction has locked. */
  private async anyOrphan(tx: ControlConnection, where: string, values: readonly unknown[]): Promise<boolean> {
    const { name, claimIndex, words } = this.table;
    const orphans = await tx.rows(
      this.table.mapped`SELECT 1 AS found FROM ${name} m FORCE INDEX (${claimIndex})
        WHERE m.status = '${words.working}' ${where} AND m.claimed_until <= UTC_TIMESTAMP(3) LIMIT 1`,
      values,
    );
    return orphans.length > 0;
  }

  /**
   * Locks: the orphans by the claim index and primary key, SKIP LOCKED, so that an owner that is writing its outcome
   * right now is neither waited for nor disturbed. Prevents: changing a message that got an outcome meanwhile (token).
   */
  private async recover(tx: ControlConnection, where: string, values: readonly unknown[]): Promise<Recovered[]> {
    const { name, id, open, claimIndex, words, source, type, told } = this.table;
    const orphans = await tx.rows<Orphan>(
      this.table
        .mapped`SELECT CAST(m.${id} AS CHAR) AS id, ${source} AS source, ${type} AS type, CAST(m.attempts AS CHAR) AS attempts,
              CAST(m.${open} AS CHAR) AS open, m.claimed_by AS claimed_by, m.claim_token AS token, ${told}
         FROM ${name} m FORCE INDEX (${claimIndex})
        WHERE m.status = '${words.working}' ${where} AND m.claimed_until <= UTC_TIMESTAMP(3)
        LIMIT ${recoveryBatch} FOR UPDATE SKIP LOCKED`,
      values,
    );
    const recovered: Recovered[] = [];
    for (const orphan of orphans) recovered.push(await this.giveBack(tx, orphan));
    return recovered;
  }

  private async giveBack(tx: ControlConnection, orphan: Orphan): Promise<Recovered> {
    const { name, id, open, finishedAt, words } = this.table;
    const exhausted = Number(orphan.attempts) > this.policy.maxRetryOf(orphan.source, orphan.type);
    // Only what ran alone can be blamed for the end of its process; the others get one more attempt, alone.
    const failed = exhausted && ranAlone(orphan.claimed_by);
    const closes = failed && !this.policy.parksOn(orphan.source);
    await tx.execute(
      this.table.mapped`UPDATE ${name} m FORCE INDEX (PRIMARY)
          SET m.status = ?, m.error_kind = ?, m.error_message = ?, m.${open} = IF(?, NULL, m.${open}),
              m.${finishedAt} = IF(?, UTC_TIMESTAMP(3), m.${finishedAt}),
              m.claim_token = NULL, m.claimed_by = NULL, m.claimed_until = NULL, m.updated_at = UTC_TIMESTAMP(3)
        WHERE m.${id} = ? AND m.status = '${words.working}' AND m.claim_token <=> ?`,
      [
        failed ? words.failed : 'pending',
        failed ? crashedKind : orphanedKind,
        `attempt ${orphan.attempts}: its owner ${orphan.claimed_by ?? '?'} stopped before it was finished`,
        closes ? 1 : 0,
        failed ? 1 : 0,
        orphan.id,
        orphan.token,
      ],
    );
    return { orphan, status: failed ? 'failed' : 'pending' };
  }
}
