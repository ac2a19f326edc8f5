import { v7 as uuidv7 } from 'uuid';
import type { Row } from '../../database/index.js';
import { entityHash } from '../../message/entity-hash.js';
import { orderUnit } from '../../message/order-unit.js';
import { quoteIdentifier } from '../box-table.js';
import { type MappedColumns, type MessageTable, messageTable } from '../mapped-columns.js';

/**
 * What runs must know of a box: which columns a message is chosen by, and how it is made due again. Columns are given by our
 * names; those of an adopted table are put in with `column` and `mapped`. The archive has our names always.
 */
export interface RunBox extends MappedColumns {
  readonly name: 'inbox' | 'outbox';
  readonly table: string;
  readonly archive: string;
  /** Every column of a message but its id, in the order of both tables. */
  readonly columns: readonly string[];
  readonly claimIndex: string;
  /** Statuses that a run may take messages from, the first one by default. */
  readonly statuses: readonly string[];
  /** Column that a selection's name stands for. */
  readonly filters: Readonly<Record<string, string>>;
  readonly receivedAt: string;
  readonly finishedAt: string;
  /** Columns that are NULL again when a message is made due again: what belongs to the life that ended. */
  readonly cleared: readonly string[];
  readonly open: string;
  /** Columns that the hash of the order unit is made of. */
  readonly unitColumns: readonly string[];
  /** The hash of the order unit; null: no order to keep. */
  unitOf(row: Row): string | null;
  /** How a message with another body is made of one that ended. */
  readonly copy: {
    /** Columns that it takes over. Not the sequence: it is the newest of its entity. */
    readonly kept: readonly string[];
    readonly body: string;
    /** Columns with values of its own. */
    fresh(): Readonly<Record<string, string>>;
  };
}

const inboxColumns = [
  'source',
  'type',
  'dedup_key',
  'entity_key',
  'open_entity',
  'lane',
  'sequence',
  'headers',
  'content_type',
  'body',
  'status',
  'attempts',
  'next_attempt_at',
  'claim_token',
  'claimed_by',
  'claimed_until',
  'error_message',
  'error_kind',
  'replay_count',
  'replay_of',
  'received_at',
  'updated_at',
  'finished_at',
] as const;

const outboxColumns = [
  'message_id',
  'topic',
  'message_key',
  'receiver',
  'open_unit',
  'sequence',
  'subject',
  'headers',
  'content_type',
  'payload',
  'status',
  'attempts',
  'next_attempt_at',
  'claim_token',
  'claimed_by',
  'claimed_until',
  'error_message',
  'error_kind',
  'replay_count',
  'replay_of',
  'expires_at',
  'created_at',
  'updated_at',
  'sent_at',
] as const;

export function inboxRunBoxOf(table: MessageTable): RunBox {
  return {
    name: 'inbox',
    table: quoteIdentifier(table.name),
    column: table.column,
    mapped: table.mapped,
    archive: '`inbox_message_archive`',
    columns: inboxColumns,
    claimIndex: 'inbox_claim',
    statuses: ['failed', 'success'],
    filters: { source: 'source', type: 'type', key: 'entity_key' },
    receivedAt: 'received_at',
    finishedAt: 'finished_at',
    cleared: ['finished_at'],
    open: 'open_entity',
    unitColumns: ['source', 'entity_key'],
    unitOf: ({ source, entity_key: key }) => (Buffer.isBuffer(key) ? entityHash(String(source), key) : null),
    copy: {
      kept: ['source', 'type', 'dedup_key', 'entity_key', 'lane', 'headers', 'content_type'],
      body: 'body',
      fresh: () => ({}),
    },
  };
}

export const inboxRunBox: RunBox = inboxRunBoxOf(messageTable('inbox_message'));

export const outboxRunBox: RunBox = {
  ...messageTable('outbox_message'),
  name: 'outbox',
  table: '`outbox_message`',
  archive: '`outbox_message_archive`',
  columns: outboxColumns,
  claimIndex: 'outbox_claim',
  statuses: ['dead', 'sent'],
  filters: { topic: 'topic', receiver: 'receiver', subject: 'subject', key: 'message_key' },
  receivedAt: 'created_at',
  finishedAt: 'sent_at',
  // With the old end of its patience an offline receiver would let it die at once.
  cleared: ['sent_at', 'expires_at'],
  open: 'open_unit',
  unitColumns: ['message_key', 'receiver'],
  unitOf({ message_key: key, receiver }) {
    if (key === null && receiver === null) return null;
    return orderUnit(Buffer.isBuffer(key) ? key : null, Buffer.isBuffer(receiver) ? receiver : null);
  },
  copy: {
    kept: ['topic', 'message_key', 'receiver', 'subject', 'headers', 'content_type'],
    body: 'payload',
    // The receiver may have processed the old one: under its id the new one would be a duplicate.
    fresh: () => ({ message_id: uuidv7() }),
  },
};

/** The columns that the hash of the order unit is made of, as a SELECT list over alias `m`. */
export function unitColumnsOf({ unitColumns, column }: RunBox): string {
  return unitColumns.map((name) => `m.${column(name)} AS ${name}`).join(', ');
}
