import { z } from 'zod';
import { type MessageTable, messageTable } from './mapped-columns.js';

/** Our columns of a message of the inbox: the name in options, then the one in our own table. */
const inboxColumns = {
  id: 'id',
  source: 'source',
  type: 'type',
  dedupKey: 'dedup_key',
  entityKey: 'entity_key',
  openEntity: 'open_entity',
  lane: 'lane',
  sequence: 'sequence',
  headers: 'headers',
  contentType: 'content_type',
  body: 'body',
  status: 'status',
  attempts: 'attempts',
  nextAttemptAt: 'next_attempt_at',
  claimToken: 'claim_token',
  claimedBy: 'claimed_by',
  claimedUntil: 'claimed_until',
  errorMessage: 'error_message',
  errorKind: 'error_kind',
  replayCount: 'replay_count',
  replayOf: 'replay_of',
  receivedAt: 'received_at',
  updatedAt: 'updated_at',
  finishedAt: 'finished_at',
} as const;

/** Columns of the inbox as options name them. */
export type InboxColumn = keyof typeof inboxColumns;

/** A table of yours that is the inbox: see `adoptTable` of nestjs-mailroom/migrations. */
export interface InboxTableOption {
  /** In the database of the DataSource. Default: inbox_message. */
  readonly name: string;
  /** What the table calls our columns, where that is not our own name: `{ body: 'msgStr', receivedAt: 'createTime' }`. */
  readonly columns?: Readonly<Partial<Record<InboxColumn, string>>>;
}

const nameWords = 'write a name of 1 to 64 letters, digits and _, not beginning with a digit';
const identifier = z.string({ error: nameWords }).regex(/^[A-Za-z_][A-Za-z0-9_$]{0,63}$/, nameWords);

export const tableOption = z
  .strictObject({
    name: identifier,
    columns: z
      .partialRecord(z.enum(Object.keys(inboxColumns) as [InboxColumn, ...InboxColumn[]]), identifier)
      .refine(
        (columns) =>
          new Set(Object.values(columns).map((name) => name.toLowerCase())).size === Object.keys(columns).length,
        {
          error: 'two columns have the same name in the table; give each its own',
        },
      )
      .default({}),
  })
  .default({ name: 'inbox_message', columns: {} });

/** The table as statements need it. */
export function tableOf({ name, columns }: z.output<typeof tableOption>): MessageTable {
  const named = Object.entries(columns).flatMap(([ours, theirs]) => {
    const column = inboxColumns[ours as InboxColumn];
    return theirs === undefined || theirs === column ? [] : [[column, `\`${theirs}\``] as const];
  });
  return messageTable(name, new Map(named));
}
