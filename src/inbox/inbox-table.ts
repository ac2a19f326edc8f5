import { type BoxTable, type MessageTable, messageTable, quoteIdentifier } from '../delivery/index.js';

/** Bodies up to this size come with the message; larger ones are fetched when their turn comes, so that reading ahead stays small. */
const inlineBodyBytes = 16_384;

/** The inbox's table, as the engine's statements need it. */
export function inboxTable({ name, column, mapped }: MessageTable = messageTable('inbox_message')): BoxTable {
  const body = inboxBody({ column });
  return {
    name: quoteIdentifier(name),
    column,
    mapped,
    id: column('id'),
    open: column('open_entity'),
    finishedAt: column('finished_at'),
    claimIndex: 'inbox_claim',
    openIndex: 'inbox_entity',
    lane: column('lane'),
    // The reorder window of a source is another mechanism.
    sequence: null,
    source: mapped`m.source`,
    type: mapped`m.type`,
    words: { working: 'processing', done: 'success', failed: 'failed' },
    payload: mapped`m.dedup_key AS dedup_key, m.entity_key AS entity_key, CAST(m.sequence AS CHAR) AS sequence,
      CAST(m.headers AS CHAR) AS headers, m.content_type AS content_type, OCTET_LENGTH(m.body) AS body_bytes,
      IF(OCTET_LENGTH(m.body) <= ${inlineBodyBytes}, ${body}, NULL) AS body,
      CAST(m.received_at AS CHAR) AS received_at, CAST(m.replay_count AS CHAR) AS replay_count`,
    told: mapped`m.entity_key AS entity_key, CAST(m.headers AS CHAR) AS headers`,
  };
}

/** The body over alias `m`, as the bytes that were stored: an adopted table may keep it in a text column. */
export function inboxBody({ column }: Pick<BoxTable, 'column'>): string {
  return column('body') === 'body' ? 'm.body' : `CAST(m.${column('body')} AS BINARY)`;
}
