-- The schema of version 1, as it was released. Never edited: docs/upgrading.md tells what for.

CREATE TABLE inbox_message (
  id bigint unsigned NOT NULL AUTO_INCREMENT,
  source varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  type varchar(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  dedup_key varbinary(255) NULL,
  entity_key varbinary(255) NULL,
  open_entity bigint unsigned NULL,
  lane smallint unsigned NOT NULL DEFAULT 0,
  sequence bigint NULL,
  headers longtext NULL,
  content_type varchar(128) NULL,
  body longblob NOT NULL,
  status varchar(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'pending',
  attempts int unsigned NOT NULL DEFAULT 0,
  next_attempt_at datetime(3) NOT NULL DEFAULT '1970-01-01 00:00:00.000',
  claim_token binary(16) NULL,
  claimed_by varchar(64) NULL,
  claimed_until datetime(3) NULL,
  error_message varchar(500) NULL,
  error_kind varchar(64) NULL,
  replay_count int unsigned NOT NULL DEFAULT 0,
  replay_of bigint unsigned NULL,
  received_at datetime(3) NULL,
  updated_at datetime(3) NULL,
  finished_at datetime(3) NULL,
  PRIMARY KEY (id),
  KEY inbox_claim (status, lane, next_attempt_at, id),
  UNIQUE KEY inbox_dedup (source, dedup_key),
  KEY inbox_entity (open_entity, id),
  CONSTRAINT headers CHECK (json_valid(headers))
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE inbox_message_archive (
  archive_id bigint unsigned NOT NULL AUTO_INCREMENT,
  id bigint unsigned NOT NULL,
  source varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  type varchar(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  dedup_key varbinary(255) NULL,
  entity_key varbinary(255) NULL,
  open_entity bigint unsigned NULL,
  lane smallint unsigned NOT NULL DEFAULT 0,
  sequence bigint NULL,
  headers longtext NULL,
  content_type varchar(128) NULL,
  body longblob NOT NULL,
  status varchar(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'pending',
  attempts int unsigned NOT NULL DEFAULT 0,
  next_attempt_at datetime(3) NOT NULL DEFAULT '1970-01-01 00:00:00.000',
  claim_token binary(16) NULL,
  claimed_by varchar(64) NULL,
  claimed_until datetime(3) NULL,
  error_message varchar(500) NULL,
  error_kind varchar(64) NULL,
  replay_count int unsigned NOT NULL DEFAULT 0,
  replay_of bigint unsigned NULL,
  received_at datetime(3) NULL,
  updated_at datetime(3) NULL,
  finished_at datetime(3) NULL,
  archived_at datetime(3) NULL,
  reason varchar(500) NULL,
  run_id bigint unsigned NULL,
  PRIMARY KEY (archive_id),
  KEY inbox_archive_message (id),
  CONSTRAINT headers CHECK (json_valid(headers))
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE mailroom_instance (
  id varchar(64) NOT NULL,
  seen_at datetime(3) NOT NULL DEFAULT '1970-01-01 00:00:00.000',
  PRIMARY KEY (id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE mailroom_lease (
  name varchar(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  owner varchar(64) NULL,
  fence bigint unsigned NOT NULL DEFAULT 0,
  held_until datetime(3) NOT NULL DEFAULT '1970-01-01 00:00:00.000',
  PRIMARY KEY (name)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE mailroom_order_key (
  order_unit bigint unsigned NOT NULL,
  used_at datetime(3) NULL,
  PRIMARY KEY (order_unit)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE mailroom_processed (
  consumer varchar(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  message_id varbinary(255) NOT NULL,
  processed_at datetime(3) NOT NULL DEFAULT '1970-01-01 00:00:00.000',
  PRIMARY KEY (consumer, message_id),
  KEY mailroom_processed_age (processed_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE mailroom_receiver (
  receiver varbinary(255) NOT NULL,
  wake_seq bigint unsigned NOT NULL DEFAULT 0,
  woken_at datetime(3) NULL,
  PRIMARY KEY (receiver)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE mailroom_sequence (
  open_entity bigint unsigned NOT NULL,
  sequence bigint NOT NULL,
  handled_at datetime(3) NOT NULL DEFAULT '1970-01-01 00:00:00.000',
  PRIMARY KEY (open_entity),
  KEY mailroom_sequence_age (handled_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE mailroom_setting (
  name varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  value varchar(255) NULL,
  PRIMARY KEY (name)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE outbox_message (
  id bigint unsigned NOT NULL AUTO_INCREMENT,
  message_id varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  topic varchar(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  message_key varbinary(255) NULL,
  receiver varbinary(255) NULL,
  open_unit bigint unsigned NULL,
  sequence bigint NULL,
  subject varbinary(64) NULL,
  headers longtext NULL,
  content_type varchar(128) NULL,
  payload longblob NOT NULL,
  status varchar(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'pending',
  attempts int unsigned NOT NULL DEFAULT 0,
  next_attempt_at datetime(3) NOT NULL DEFAULT '1970-01-01 00:00:00.000',
  claim_token binary(16) NULL,
  claimed_by varchar(64) NULL,
  claimed_until datetime(3) NULL,
  error_message varchar(500) NULL,
  error_kind varchar(64) NULL,
  replay_count int unsigned NOT NULL DEFAULT 0,
  replay_of bigint unsigned NULL,
  expires_at datetime(3) NULL,
  created_at datetime(3) NULL,
  updated_at datetime(3) NULL,
  sent_at datetime(3) NULL,
  PRIMARY KEY (id),
  KEY outbox_claim (status, next_attempt_at, id),
  UNIQUE KEY outbox_message_id (message_id),
  KEY outbox_receiver (receiver, created_at),
  KEY outbox_subject (subject),
  KEY outbox_unit (open_unit, id),
  CONSTRAINT headers CHECK (json_valid(headers))
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE outbox_message_archive (
  archive_id bigint unsigned NOT NULL AUTO_INCREMENT,
  id bigint unsigned NOT NULL,
  message_id varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  topic varchar(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  message_key varbinary(255) NULL,
  receiver varbinary(255) NULL,
  open_unit bigint unsigned NULL,
  sequence bigint NULL,
  subject varbinary(64) NULL,
  headers longtext NULL,
  content_type varchar(128) NULL,
  payload longblob NOT NULL,
  status varchar(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'pending',
  attempts int unsigned NOT NULL DEFAULT 0,
  next_attempt_at datetime(3) NOT NULL DEFAULT '1970-01-01 00:00:00.000',
  claim_token binary(16) NULL,
  claimed_by varchar(64) NULL,
  claimed_until datetime(3) NULL,
  error_message varchar(500) NULL,
  error_kind varchar(64) NULL,
  replay_count int unsigned NOT NULL DEFAULT 0,
  replay_of bigint unsigned NULL,
  expires_at datetime(3) NULL,
  created_at datetime(3) NULL,
  updated_at datetime(3) NULL,
  sent_at datetime(3) NULL,
  archived_at datetime(3) NULL,
  reason varchar(500) NULL,
  run_id bigint unsigned NULL,
  PRIMARY KEY (archive_id),
  KEY outbox_archive_message (id),
  CONSTRAINT headers CHECK (json_valid(headers))
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE replay_item (
  run_id bigint unsigned NOT NULL,
  message_id bigint unsigned NOT NULL,
  outcome varchar(16) CHARACTER SET ascii COLLATE ascii_bin NULL,
  detail varchar(255) NULL,
  outcome_at datetime(3) NULL,
  PRIMARY KEY (run_id, message_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE replay_run (
  id bigint unsigned NOT NULL AUTO_INCREMENT,
  box varchar(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  action varchar(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'replay',
  selection longtext NULL,
  actor varchar(128) NULL,
  reason varchar(500) NULL,
  state varchar(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'pending',
  rate_per_second decimal(9,3) NOT NULL DEFAULT 10.000,
  keep_order tinyint unsigned NOT NULL DEFAULT 0,
  max_replays int unsigned NULL,
  selected int unsigned NOT NULL DEFAULT 0,
  requeued int unsigned NOT NULL DEFAULT 0,
  discarded int unsigned NOT NULL DEFAULT 0,
  skipped int unsigned NOT NULL DEFAULT 0,
  refused int unsigned NOT NULL DEFAULT 0,
  last_message_id bigint unsigned NOT NULL DEFAULT 0,
  claim_token binary(16) NULL,
  claimed_by varchar(64) NULL,
  claimed_until datetime(3) NULL,
  error_message varchar(500) NULL,
  created_at datetime(3) NULL,
  started_at datetime(3) NULL,
  updated_at datetime(3) NULL,
  finished_at datetime(3) NULL,
  PRIMARY KEY (id),
  KEY replay_run_state (state, id),
  CONSTRAINT selection CHECK (json_valid(selection))
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

INSERT INTO mailroom_setting (name, value) VALUES ('schema_version', '1');
