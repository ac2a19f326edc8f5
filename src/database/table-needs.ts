/** What a statement of ours takes for granted of a table. */
export interface TableNeed {
  readonly table: string;
  /** By column: how its type begins in information_schema; `|` between those that will do. */
  readonly columns: Readonly<Record<string, string>>;
  /** By index: its columns, in order. */
  readonly indexes: Readonly<Record<string, readonly string[]>>;
  /** By index that decides what a duplicate is: what happens when it is not unique. */
  readonly unique?: Readonly<Record<string, string>>;
}

/** The schema that this release works with. Older ones are refused; newer ones are kept compatible by their release. */
export const schemaVersion = 1;

const instant = 'datetime(3)';

/** What a message of either box has. */
const message = {
  id: 'bigint',
  sequence: 'bigint',
  headers: 'json|longtext',
  content_type: 'varchar',
  status: 'varchar',
  attempts: 'int',
  next_attempt_at: instant,
  claim_token: 'binary(16)',
  claimed_by: 'varchar',
  claimed_until: instant,
  error_message: 'varchar',
  error_kind: 'varchar',
  replay_count: 'int',
  replay_of: 'bigint',
  updated_at: instant,
} as const;

export const inboxNeed: TableNeed = {
  table: 'inbox_message',
  columns: {
    ...message,
    source: 'varchar',
    type: 'varchar',
    dedup_key: 'varbinary',
    entity_key: 'varbinary',
    open_entity: 'bigint',
    lane: 'smallint',
    body: 'longblob',
    received_at: instant,
    finished_at: instant,
  },
  indexes: {
    PRIMARY: ['id'],
    inbox_dedup: ['source', 'dedup_key'],
    inbox_claim: ['status', 'lane', 'next_attempt_at', 'id'],
    inbox_entity: ['open_entity', 'id'],
  },
  unique: { inbox_dedup: 'a message that is pushed twice would be stored twice' },
};

export const outboxNeed: TableNeed = {
  table: 'outbox_message',
  columns: {
    ...message,
    message_id: 'varchar',
    topic: 'varchar',
    message_key: 'varbinary',
    receiver: 'varbinary',
    open_unit: 'bigint',
    subject: 'varbinary',
    payload: 'longblob',
    expires_at: instant,
    created_at: instant,
    sent_at: instant,
  },
  indexes: {
    PRIMARY: ['id'],
    outbox_message_id: ['message_id'],
    outbox_claim: ['status', 'next_attempt_at', 'id'],
    outbox_unit: ['open_unit', 'id'],
    outbox_receiver: ['receiver', 'created_at'],
    outbox_subject: ['subject'],
  },
  unique: { outbox_message_id: 'a message id that is given twice would be sent twice' },
};

const archived = { archive_id: 'bigint', archived_at: instant, reason: 'varchar', run_id: 'bigint' } as const;

/** Tables that are small, or that only mailroom writes to. */
export const sharedNeeds = {
  lease: {
    table: 'mailroom_lease',
    columns: { name: 'varchar', owner: 'varchar', fence: 'bigint', held_until: instant },
    indexes: { PRIMARY: ['name'] },
  },
  instance: {
    table: 'mailroom_instance',
    columns: { id: 'varchar', seen_at: instant },
    indexes: { PRIMARY: ['id'] },
  },
  receiver: {
    table: 'mailroom_receiver',
    columns: { receiver: 'varbinary', wake_seq: 'bigint', woken_at: instant },
    indexes: { PRIMARY: ['receiver'] },
  },
  orderKey: {
    table: 'mailroom_order_key',
    columns: { order_unit: 'bigint', used_at: instant },
    indexes: { PRIMARY: ['order_unit'] },
  },
  processed: {
    table: 'mailroom_processed',
    columns: { consumer: 'varchar', message_id: 'varbinary', processed_at: instant },
    indexes: { PRIMARY: ['consumer', 'message_id'], mailroom_processed_age: ['processed_at'] },
  },
  sequence: {
    table: 'mailroom_sequence',
    columns: { open_entity: 'bigint', sequence: 'bigint', handled_at: instant },
    indexes: { PRIMARY: ['open_entity'], mailroom_sequence_age: ['handled_at'] },
  },
  setting: {
    table: 'mailroom_setting',
    columns: { name: 'varchar', value: 'varchar' },
    indexes: { PRIMARY: ['name'] },
  },
  inboxArchive: {
    table: 'inbox_message_archive',
    columns: { ...inboxNeed.columns, ...archived },
    indexes: { PRIMARY: ['archive_id'], inbox_archive_message: ['id'] },
  },
  outboxArchive: {
    table: 'outbox_message_archive',
    columns: { ...outboxNeed.columns, ...archived },
    indexes: { PRIMARY: ['archive_id'], outbox_archive_message: ['id'] },
  },
  run: {
    table: 'replay_run',
    columns: {
      id: 'bigint',
      box: 'varchar',
      action: 'varchar',
      selection: 'json|longtext',
      actor: 'varchar',
      reason: 'varchar',
      state: 'varchar',
      rate_per_second: 'decimal',
      keep_order: 'tinyint',
      max_replays: 'int',
      selected: 'int',
      requeued: 'int',
      discarded: 'int',
      skipped: 'int',
      refused: 'int',
      last_message_id: 'bigint',
      claim_token: 'binary(16)',
      claimed_by: 'varchar',
      claimed_until: instant,
      error_message: 'varchar',
      created_at: instant,
      started_at: instant,
      updated_at: instant,
      finished_at: instant,
    },
    indexes: { PRIMARY: ['id'], replay_run_state: ['state', 'id'] },
  },
  runItem: {
    table: 'replay_item',
    columns: { run_id: 'bigint', message_id: 'bigint', outcome: 'varchar', detail: 'varchar', outcome_at: instant },
    indexes: { PRIMARY: ['run_id', 'message_id'] },
  },
} as const satisfies Readonly<Record<string, TableNeed>>;
