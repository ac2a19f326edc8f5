// The statements of the first migration, frozen with it: one per table. docs/schema.md tells what each column is for.
//
// Rules that hold for all of them, so that the same text works on MySQL 8.0.19+ and MariaDB 10.6+:
// - charset and collation are named, because the database's own default may be latin1 or case-insensitive;
// - keys that a sender chooses are VARBINARY: no collation may call two of them equal;
// - no default calls a clock: such a default cannot be added online when an existing table is adopted;
// - beyond ids, keys and bodies every column is NULL-able or has a constant default.

const TABLE_OPTIONS = 'ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin';
const ASCII = 'CHARACTER SET ascii COLLATE ascii_bin';
const LONG_AGO = "'1970-01-01 00:00:00'";

/** What a message and its archived copy have in common, after `id`. */
const INBOX_COLUMNS = `
  source VARCHAR(64) ${ASCII} NOT NULL DEFAULT '',
  type VARCHAR(128) ${ASCII} NOT NULL DEFAULT '',
  dedup_key VARBINARY(255) NULL,
  entity_key VARBINARY(255) NULL,
  open_entity BIGINT UNSIGNED NULL,
  lane SMALLINT UNSIGNED NOT NULL DEFAULT 0,
  sequence BIGINT NULL,
  headers JSON NULL,
  content_type VARCHAR(128) NULL,
  body LONGBLOB NOT NULL,
  status VARCHAR(16) ${ASCII} NOT NULL DEFAULT 'pending',
  attempts INT UNSIGNED NOT NULL DEFAULT 0,
  next_attempt_at DATETIME(3) NOT NULL DEFAULT ${LONG_AGO},
  claim_token BINARY(16) NULL,
  claimed_by VARCHAR(64) NULL,
  claimed_until DATETIME(3) NULL,
  error_message VARCHAR(500) NULL,
  error_kind VARCHAR(64) NULL,
  replay_count INT UNSIGNED NOT NULL DEFAULT 0,
  replay_of BIGINT UNSIGNED NULL,
  received_at DATETIME(3) NULL,
  updated_at DATETIME(3) NULL,
  finished_at DATETIME(3) NULL`;

const OUTBOX_COLUMNS = `
  message_id VARCHAR(64) ${ASCII} NOT NULL,
  topic VARCHAR(128) ${ASCII} NOT NULL DEFAULT '',
  message_key VARBINARY(255) NULL,
  receiver VARBINARY(255) NULL,
  open_unit BIGINT UNSIGNED NULL,
  sequence BIGINT NULL,
  subject VARBINARY(64) NULL,
  headers JSON NULL,
  content_type VARCHAR(128) NULL,
  payload LONGBLOB NOT NULL,
  status VARCHAR(16) ${ASCII} NOT NULL DEFAULT 'pending',
  attempts INT UNSIGNED NOT NULL DEFAULT 0,
  next_attempt_at DATETIME(3) NOT NULL DEFAULT ${LONG_AGO},
  claim_token BINARY(16) NULL,
  claimed_by VARCHAR(64) NULL,
  claimed_until DATETIME(3) NULL,
  error_message VARCHAR(500) NULL,
  error_kind VARCHAR(64) NULL,
  replay_count INT UNSIGNED NOT NULL DEFAULT 0,
  replay_of BIGINT UNSIGNED NULL,
  expires_at DATETIME(3) NULL,
  created_at DATETIME(3) NULL,
  updated_at DATETIME(3) NULL,
  sent_at DATETIME(3) NULL`;

const ARCHIVE_COLUMNS = `
  archived_at DATETIME(3) NULL,
  reason VARCHAR(500) NULL,
  run_id BIGINT UNSIGNED NULL`;

const INBOX_MESSAGE = `
CREATE TABLE IF NOT EXISTS inbox_message (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,${INBOX_COLUMNS},
  PRIMARY KEY (id),
  UNIQUE KEY inbox_dedup (source, dedup_key),
  KEY inbox_claim (status, lane, next_attempt_at, id),
  KEY inbox_entity (open_entity, id)
) ${TABLE_OPTIONS}`;

const OUTBOX_MESSAGE = `
CREATE TABLE IF NOT EXISTS outbox_message (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,${OUTBOX_COLUMNS},
  PRIMARY KEY (id),
  UNIQUE KEY outbox_message_id (message_id),
  KEY outbox_claim (status, next_attempt_at, id),
  KEY outbox_unit (open_unit, id),
  KEY outbox_receiver (receiver, created_at),
  KEY outbox_subject (subject)
) ${TABLE_OPTIONS}`;

// An archive may hold a message several times, once per replay: its own primary key, and no unique key.
const INBOX_MESSAGE_ARCHIVE = `
CREATE TABLE IF NOT EXISTS inbox_message_archive (
  archive_id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  id BIGINT UNSIGNED NOT NULL,${INBOX_COLUMNS},${ARCHIVE_COLUMNS},
  PRIMARY KEY (archive_id),
  KEY inbox_archive_message (id)
) ${TABLE_OPTIONS}`;

const OUTBOX_MESSAGE_ARCHIVE = `
CREATE TABLE IF NOT EXISTS outbox_message_archive (
  archive_id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  id BIGINT UNSIGNED NOT NULL,${OUTBOX_COLUMNS},${ARCHIVE_COLUMNS},
  PRIMARY KEY (archive_id),
  KEY outbox_archive_message (id)
) ${TABLE_OPTIONS}`;

const REPLAY_RUN = `
CREATE TABLE IF NOT EXISTS replay_run (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  box VARCHAR(16) ${ASCII} NOT NULL,
  action VARCHAR(16) ${ASCII} NOT NULL DEFAULT 'replay',
  selection JSON NULL,
  actor VARCHAR(128) NULL,
  reason VARCHAR(500) NULL,
  state VARCHAR(16) ${ASCII} NOT NULL DEFAULT 'pending',
  rate_per_second DECIMAL(9,3) NOT NULL DEFAULT 10.000,
  keep_order TINYINT UNSIGNED NOT NULL DEFAULT 0,
  max_replays INT UNSIGNED NULL,
  selected INT UNSIGNED NOT NULL DEFAULT 0,
  requeued INT UNSIGNED NOT NULL DEFAULT 0,
  discarded INT UNSIGNED NOT NULL DEFAULT 0,
  skipped INT UNSIGNED NOT NULL DEFAULT 0,
  refused INT UNSIGNED NOT NULL DEFAULT 0,
  last_message_id BIGINT UNSIGNED NOT NULL DEFAULT 0,
  claim_token BINARY(16) NULL,
  claimed_by VARCHAR(64) NULL,
  claimed_until DATETIME(3) NULL,
  error_message VARCHAR(500) NULL,
  created_at DATETIME(3) NULL,
  started_at DATETIME(3) NULL,
  updated_at DATETIME(3) NULL,
  finished_at DATETIME(3) NULL,
  PRIMARY KEY (id),
  KEY replay_run_state (state, id)
) ${TABLE_OPTIONS}`;

const REPLAY_ITEM = `
CREATE TABLE IF NOT EXISTS replay_item (
  run_id BIGINT UNSIGNED NOT NULL,
  message_id BIGINT UNSIGNED NOT NULL,
  outcome VARCHAR(16) ${ASCII} NULL,
  detail VARCHAR(255) NULL,
  outcome_at DATETIME(3) NULL,
  PRIMARY KEY (run_id, message_id)
) ${TABLE_OPTIONS}`;

const MAILROOM_LEASE = `
CREATE TABLE IF NOT EXISTS mailroom_lease (
  name VARCHAR(128) ${ASCII} NOT NULL,
  owner VARCHAR(64) NULL,
  fence BIGINT UNSIGNED NOT NULL DEFAULT 0,
  held_until DATETIME(3) NOT NULL DEFAULT ${LONG_AGO},
  PRIMARY KEY (name)
) ${TABLE_OPTIONS}`;

const MAILROOM_INSTANCE = `
CREATE TABLE IF NOT EXISTS mailroom_instance (
  id VARCHAR(64) NOT NULL,
  seen_at DATETIME(3) NOT NULL DEFAULT ${LONG_AGO},
  PRIMARY KEY (id)
) ${TABLE_OPTIONS}`;

const MAILROOM_RECEIVER = `
CREATE TABLE IF NOT EXISTS mailroom_receiver (
  receiver VARBINARY(255) NOT NULL,
  wake_seq BIGINT UNSIGNED NOT NULL DEFAULT 0,
  woken_at DATETIME(3) NULL,
  PRIMARY KEY (receiver)
) ${TABLE_OPTIONS}`;

const MAILROOM_ORDER_KEY = `
CREATE TABLE IF NOT EXISTS mailroom_order_key (
  order_unit BIGINT UNSIGNED NOT NULL,
  used_at DATETIME(3) NULL,
  PRIMARY KEY (order_unit)
) ${TABLE_OPTIONS}`;

const MAILROOM_PROCESSED = `
CREATE TABLE IF NOT EXISTS mailroom_processed (
  consumer VARCHAR(128) ${ASCII} NOT NULL,
  message_id VARBINARY(255) NOT NULL,
  processed_at DATETIME(3) NOT NULL DEFAULT ${LONG_AGO},
  PRIMARY KEY (consumer, message_id),
  KEY mailroom_processed_age (processed_at)
) ${TABLE_OPTIONS}`;

const MAILROOM_SEQUENCE = `
CREATE TABLE IF NOT EXISTS mailroom_sequence (
  open_entity BIGINT UNSIGNED NOT NULL,
  sequence BIGINT NOT NULL,
  handled_at DATETIME(3) NOT NULL DEFAULT ${LONG_AGO},
  PRIMARY KEY (open_entity),
  KEY mailroom_sequence_age (handled_at)
) ${TABLE_OPTIONS}`;

const MAILROOM_SETTING = `
CREATE TABLE IF NOT EXISTS mailroom_setting (
  name VARCHAR(64) ${ASCII} NOT NULL,
  value VARCHAR(255) NULL,
  PRIMARY KEY (name)
) ${TABLE_OPTIONS}`;

/**
 * The tables in the order in which `up` creates them, each with its statement and with one column that tells it from
 * a foreign table of the same name. `down` drops them in the opposite order, so the schema version goes first.
 */
export const TABLES = [
  { name: 'inbox_message', mark: 'open_entity', create: INBOX_MESSAGE },
  { name: 'outbox_message', mark: 'open_unit', create: OUTBOX_MESSAGE },
  { name: 'inbox_message_archive', mark: 'archive_id', create: INBOX_MESSAGE_ARCHIVE },
  { name: 'outbox_message_archive', mark: 'archive_id', create: OUTBOX_MESSAGE_ARCHIVE },
  { name: 'replay_run', mark: 'last_message_id', create: REPLAY_RUN },
  { name: 'replay_item', mark: 'outcome_at', create: REPLAY_ITEM },
  { name: 'mailroom_lease', mark: 'fence', create: MAILROOM_LEASE },
  { name: 'mailroom_instance', mark: 'seen_at', create: MAILROOM_INSTANCE },
  { name: 'mailroom_receiver', mark: 'wake_seq', create: MAILROOM_RECEIVER },
  { name: 'mailroom_order_key', mark: 'order_unit', create: MAILROOM_ORDER_KEY },
  { name: 'mailroom_processed', mark: 'processed_at', create: MAILROOM_PROCESSED },
  { name: 'mailroom_sequence', mark: 'handled_at', create: MAILROOM_SEQUENCE },
  { name: 'mailroom_setting', mark: 'value', create: MAILROOM_SETTING },
] as const;

/** Written last: a database without this row has no complete schema. */
export const SET_SCHEMA_VERSION = `
INSERT INTO mailroom_setting (name, value) VALUES ('schema_version', '1') ON DUPLICATE KEY UPDATE name = name`;
