// What an adopted table gets beside its own columns. Frozen with the first release, like the statements of the tables.
//
// Every column is NULL-able or has a constant default, so that an INSERT of code that does not know them keeps working. Each
// has the comment `mailroom`, which tells it from a column of yours when a migration that failed half-way is run again.

const ASCII = 'CHARACTER SET ascii COLLATE ascii_bin';
const UTF8 = 'CHARACTER SET utf8mb4 COLLATE utf8mb4_bin';
const LONG_AGO = "'1970-01-01 00:00:00'";

/** Tells a column that was added from one that was there. */
export const COLUMN_MARK = 'mailroom';

interface AdoptedColumn {
  /** Its name in a table of mailroom's own. */
  readonly column: string;
  /** How it is added; null: the table must have it. */
  readonly definition: string | null;
  /** What one of yours may be, by its type in information_schema; null: it cannot be yours. */
  readonly yours: RegExp | null;
}

const texts = /^(?:tiny|medium|long)?text$|^varchar|^char/;

/** By the name that options use. `status` is told apart: its default is what the two phases are about. */
export const ADOPTED_COLUMNS = {
  id: { column: 'id', definition: null, yours: /^(?:big|medium)?int/ },
  source: { column: 'source', definition: `VARCHAR(64) ${ASCII} NOT NULL DEFAULT ''`, yours: texts },
  type: { column: 'type', definition: `VARCHAR(128) ${ASCII} NOT NULL DEFAULT ''`, yours: texts },
  dedupKey: { column: 'dedup_key', definition: 'VARBINARY(255) NULL', yours: null },
  entityKey: { column: 'entity_key', definition: 'VARBINARY(255) NULL', yours: null },
  openEntity: { column: 'open_entity', definition: 'BIGINT UNSIGNED NULL', yours: null },
  lane: { column: 'lane', definition: 'SMALLINT UNSIGNED NOT NULL DEFAULT 0', yours: null },
  sequence: { column: 'sequence', definition: 'BIGINT NULL', yours: null },
  headers: { column: 'headers', definition: 'JSON NULL', yours: /^json$|^(?:medium|long)?text$/ },
  contentType: { column: 'content_type', definition: `VARCHAR(128) ${UTF8} NULL`, yours: texts },
  body: {
    column: 'body',
    definition: 'LONGBLOB NULL',
    yours: /^(?:tiny|medium|long)?(?:text|blob)$|^varchar|^varbinary|^json$/,
  },
  status: { column: 'status', definition: `VARCHAR(16) ${ASCII} NOT NULL DEFAULT 'success'`, yours: null },
  attempts: { column: 'attempts', definition: 'INT UNSIGNED NOT NULL DEFAULT 0', yours: null },
  nextAttemptAt: { column: 'next_attempt_at', definition: `DATETIME(3) NOT NULL DEFAULT ${LONG_AGO}`, yours: null },
  claimToken: { column: 'claim_token', definition: 'BINARY(16) NULL', yours: null },
  claimedBy: { column: 'claimed_by', definition: `VARCHAR(64) ${UTF8} NULL`, yours: null },
  claimedUntil: { column: 'claimed_until', definition: 'DATETIME(3) NULL', yours: null },
  errorMessage: { column: 'error_message', definition: `VARCHAR(500) ${UTF8} NULL`, yours: null },
  errorKind: { column: 'error_kind', definition: `VARCHAR(64) ${UTF8} NULL`, yours: null },
  replayCount: { column: 'replay_count', definition: 'INT UNSIGNED NOT NULL DEFAULT 0', yours: null },
  replayOf: { column: 'replay_of', definition: 'BIGINT UNSIGNED NULL', yours: null },
  receivedAt: { column: 'received_at', definition: 'DATETIME(3) NULL', yours: /^(?:datetime|timestamp)/ },
  updatedAt: { column: 'updated_at', definition: 'DATETIME(3) NULL', yours: null },
  finishedAt: { column: 'finished_at', definition: 'DATETIME(3) NULL', yours: null },
} as const satisfies Readonly<Record<string, AdoptedColumn>>;

/** A column as `inbox.table.columns` names it. */
export type AdoptedColumnName = keyof typeof ADOPTED_COLUMNS;

/** In the order in which they are built. The names are those of a table of mailroom's own. */
export const ADOPTED_INDEXES: readonly {
  readonly name: string;
  readonly unique: boolean;
  readonly columns: readonly AdoptedColumnName[];
}[] = [
  { name: 'inbox_dedup', unique: true, columns: ['source', 'dedupKey'] },
  { name: 'inbox_claim', unique: false, columns: ['status', 'lane', 'nextAttemptAt', 'id'] },
  { name: 'inbox_entity', unique: false, columns: ['openEntity', 'id'] },
];
