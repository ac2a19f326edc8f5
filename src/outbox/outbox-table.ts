import { type BoxTable, messageTable, quoteIdentifier } from '../delivery/index.js';

/** What the outbox calls itself where the inbox names a source. */
export const outboxSource = 'outbox';

/** Payloads up to this size come with the message; larger ones are fetched when they are sent. */
const inlinePayloadBytes = 65_536;

/** The outbox's table, as the engine's statements need it. */
export const outboxTable: BoxTable = {
  ...messageTable('outbox_message'),
  name: quoteIdentifier('outbox_message'),
  id: 'id',
  open: 'open_unit',
  finishedAt: 'sent_at',
  claimIndex: 'outbox_claim',
  openIndex: 'outbox_unit',
  lane: null,
  sequence: 'sequence',
  source: `'${outboxSource}'`,
  type: 'm.topic',
  words: { working: 'sending', done: 'sent', failed: 'dead' },
  payload: `m.message_id, m.message_key, m.receiver, CAST(m.sequence AS CHAR) AS sequence, m.subject,
      CAST(m.headers AS CHAR) AS headers, m.content_type, OCTET_LENGTH(m.payload) AS payload_bytes,
      IF(OCTET_LENGTH(m.payload) <= ${inlinePayloadBytes}, m.payload, NULL) AS payload,
      CAST(m.created_at AS CHAR) AS created_at, CAST(m.replay_count AS CHAR) AS replay_count`,
  told: 'm.message_id, m.message_key, m.receiver, CAST(m.headers AS CHAR) AS headers',
};
