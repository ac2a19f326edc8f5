import { type BoxTable, quoteIdentifier } from '../delivery/index.js';

/** Bodies up to this size come with the message; larger ones are fetched when their turn comes, so that reading ahead stays small. */
const inlineBodyBytes = 16_384;

/** The inbox's table, as the engine's statements need it. */
export function inboxTable(name: string): BoxTable {
  return {
    name: quoteIdentifier(name),
    id: 'id',
    open: 'open_entity',
    finishedAt: 'finished_at',
    claimIndex: 'inbox_claim',
    openIndex: 'inbox_entity',
    lane: 'lane',
    // The reorder window of a source is another mechanism.
    sequence: null,
    source: 'm.source',
    type: 'm.type',
    words: { working: 'processing', done: 'success', failed: 'failed' },
    payload: `m.dedup_key, m.entity_key, CAST(m.sequence AS CHAR) AS sequence, CAST(m.headers AS CHAR) AS headers, m.content_type,
      OCTET_LENGTH(m.body) AS body_bytes, IF(OCTET_LENGTH(m.body) <= ${inlineBodyBytes}, m.body, NULL) AS body,
      CAST(m.received_at AS CHAR) AS received_at, CAST(m.replay_count AS CHAR) AS replay_count`,
  };
}
