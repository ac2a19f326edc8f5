-- Replay by hand, where neither the service nor `npx mailroom` can be used. Each part does what a run does: it writes down
-- who, why and which messages, archives them as they are, and only then makes them due again, in one transaction each.
-- Run one part at a time in one session of the mysql or mariadb client; change the values after SET. Look at what the SELECT
-- shows before you go on. A part that fails half-way: ROLLBACK, and nothing was changed. At most 1,000 messages a time.

-- part: look (the inbox; changes nothing)
SELECT m.source, m.type, m.error_kind, COUNT(*) AS messages, MIN(m.id) AS example, MIN(m.received_at) AS oldest, MAX(m.received_at) AS newest
  FROM inbox_message m FORCE INDEX (inbox_claim) WHERE m.status = 'failed' GROUP BY m.source, m.type, m.error_kind;

-- part: replay (the inbox)
SET @actor = 'ann', @reason = 'the shop is back', @source = 'order-center', @type = 'order.paid', @error_kind = 'shop-away', @most_replays = 10;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
START TRANSACTION;
-- Others who start a run wait for this row.
INSERT INTO mailroom_lease (name) VALUES ('run:inbox') ON DUPLICATE KEY UPDATE name = name;
SELECT name FROM mailroom_lease WHERE name = 'run:inbox' FOR UPDATE;
INSERT INTO replay_run (box, action, selection, actor, reason, state, max_replays, created_at, started_at, updated_at)
VALUES ('inbox', 'replay', JSON_OBJECT('source', @source, 'type', @type, 'errorKind', @error_kind), @actor, @reason, 'done', @most_replays,
        UTC_TIMESTAMP(3), UTC_TIMESTAMP(3), UTC_TIMESTAMP(3));
SET @run = LAST_INSERT_ID();
-- Not what an unfinished run has before it.
INSERT INTO replay_item (run_id, message_id)
SELECT @run, m.id FROM inbox_message m FORCE INDEX (inbox_claim)
 WHERE m.status = 'failed' AND m.source = @source AND m.type = @type AND m.error_kind = @error_kind AND m.replay_count < @most_replays
   AND NOT EXISTS (SELECT 1 FROM replay_run r JOIN replay_item o ON o.run_id = r.id AND o.message_id = m.id
                    WHERE r.box = 'inbox' AND r.state IN ('pending', 'running') AND o.message_id > r.last_message_id)
 ORDER BY m.id LIMIT 1000;
-- Locks them in order; whoever changes one of them has committed then.
SELECT m.id, m.status, m.attempts, m.error_message FROM inbox_message m
 WHERE m.id IN (SELECT i.message_id FROM replay_item i WHERE i.run_id = @run) ORDER BY m.id FOR UPDATE;
UPDATE replay_item i LEFT JOIN inbox_message m ON m.id = i.message_id AND m.status = 'failed'
   SET i.outcome = IF(m.id IS NULL, 'skipped', 'requeued'), i.detail = IF(m.id IS NULL, 'its status changed', NULL),
       i.outcome_at = UTC_TIMESTAMP(3)
 WHERE i.run_id = @run;
INSERT INTO inbox_message_archive (id, source, type, dedup_key, entity_key, open_entity, lane, sequence, headers, content_type, body, status,
       attempts, next_attempt_at, claim_token, claimed_by, claimed_until, error_message, error_kind, replay_count, replay_of, received_at,
       updated_at, finished_at, archived_at, reason, run_id)
SELECT m.id, m.source, m.type, m.dedup_key, m.entity_key, m.open_entity, m.lane, m.sequence, m.headers, m.content_type, m.body, m.status,
       m.attempts, m.next_attempt_at, m.claim_token, m.claimed_by, m.claimed_until, m.error_message, m.error_kind, m.replay_count, m.replay_of,
       m.received_at, m.updated_at, m.finished_at, UTC_TIMESTAMP(3), CONCAT('replay: ', @reason), @run
  FROM inbox_message m JOIN replay_item i ON i.run_id = @run AND i.message_id = m.id AND i.outcome = 'requeued' ORDER BY m.id;
-- open_entity: the first 64 bits of a SHA-256 of source and entity key. It keeps the messages of an entity in order.
UPDATE inbox_message m JOIN replay_item i ON i.run_id = @run AND i.message_id = m.id AND i.outcome = 'requeued'
   SET m.status = 'pending', m.attempts = 0, m.next_attempt_at = UTC_TIMESTAMP(3),
       m.open_entity = CONV(LEFT(SHA2(CONCAT(CAST(m.source AS BINARY), 0x00, m.entity_key), 256), 16), 16, 10),
       m.finished_at = NULL, m.error_kind = NULL, m.error_message = NULL, m.replay_count = m.replay_count + 1,
       m.claim_token = NULL, m.claimed_by = NULL, m.claimed_until = NULL, m.updated_at = UTC_TIMESTAMP(3)
 WHERE m.status = 'failed';
UPDATE replay_run r
   SET r.selected = (SELECT COUNT(*) FROM replay_item i WHERE i.run_id = @run),
       r.requeued = (SELECT COUNT(*) FROM replay_item i WHERE i.run_id = @run AND i.outcome = 'requeued'),
       r.skipped = (SELECT COUNT(*) FROM replay_item i WHERE i.run_id = @run AND i.outcome = 'skipped'),
       r.finished_at = UTC_TIMESTAMP(3)
 WHERE r.id = @run;
COMMIT;
SELECT r.id, r.selected, r.requeued, r.skipped FROM replay_run r WHERE r.id = @run;

-- part: discard (one message of the inbox, into the archive)
SET @actor = 'ann', @reason = 'a test order', @id = 1;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
START TRANSACTION;
INSERT INTO replay_run (box, action, selection, actor, reason, state, selected, discarded, created_at, started_at, finished_at, updated_at)
VALUES ('inbox', 'discard', JSON_OBJECT('ids', JSON_ARRAY(@id)), @actor, @reason, 'done', 1, 1,
        UTC_TIMESTAMP(3), UTC_TIMESTAMP(3), UTC_TIMESTAMP(3), UTC_TIMESTAMP(3));
SET @run = LAST_INSERT_ID();
INSERT INTO replay_item (run_id, message_id, outcome, outcome_at) VALUES (@run, @id, 'discarded', UTC_TIMESTAMP(3));
-- Nothing comes back unless it has ended: then ROLLBACK.
SELECT m.id, m.status, m.error_message FROM inbox_message m WHERE m.id = @id AND m.status IN ('failed', 'success') FOR UPDATE;
INSERT INTO inbox_message_archive (id, source, type, dedup_key, entity_key, open_entity, lane, sequence, headers, content_type, body, status,
       attempts, next_attempt_at, claim_token, claimed_by, claimed_until, error_message, error_kind, replay_count, replay_of, received_at,
       updated_at, finished_at, archived_at, reason, run_id)
SELECT m.id, m.source, m.type, m.dedup_key, m.entity_key, m.open_entity, m.lane, m.sequence, m.headers, m.content_type, m.body, m.status,
       m.attempts, m.next_attempt_at, m.claim_token, m.claimed_by, m.claimed_until, m.error_message, m.error_kind, m.replay_count, m.replay_of,
       m.received_at, m.updated_at, m.finished_at, UTC_TIMESTAMP(3), CONCAT('discard: ', @reason), @run
  FROM inbox_message m WHERE m.id = @id AND m.status IN ('failed', 'success');
DELETE FROM inbox_message WHERE id = @id AND status IN ('failed', 'success');
COMMIT;

-- part: replay (the outbox)
SET @actor = 'ann', @reason = 'the broker is back', @topic = 'warehouse.reserve', @error_kind = 'broker-away', @most_replays = 10;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
START TRANSACTION;
INSERT INTO mailroom_lease (name) VALUES ('run:outbox') ON DUPLICATE KEY UPDATE name = name;
SELECT name FROM mailroom_lease WHERE name = 'run:outbox' FOR UPDATE;
INSERT INTO replay_run (box, action, selection, actor, reason, state, max_replays, created_at, started_at, updated_at)
VALUES ('outbox', 'replay', JSON_OBJECT('topic', @topic, 'errorKind', @error_kind), @actor, @reason, 'done', @most_replays,
        UTC_TIMESTAMP(3), UTC_TIMESTAMP(3), UTC_TIMESTAMP(3));
SET @run = LAST_INSERT_ID();
INSERT INTO replay_item (run_id, message_id)
SELECT @run, m.id FROM outbox_message m FORCE INDEX (outbox_claim)
 WHERE m.status = 'dead' AND m.topic = @topic AND m.error_kind = @error_kind AND m.replay_count < @most_replays
   AND NOT EXISTS (SELECT 1 FROM replay_run r JOIN replay_item o ON o.run_id = r.id AND o.message_id = m.id
                    WHERE r.box = 'outbox' AND r.state IN ('pending', 'running') AND o.message_id > r.last_message_id)
 ORDER BY m.id LIMIT 1000;
SELECT m.id, m.status, m.attempts, m.error_message FROM outbox_message m
 WHERE m.id IN (SELECT i.message_id FROM replay_item i WHERE i.run_id = @run) ORDER BY m.id FOR UPDATE;
UPDATE replay_item i LEFT JOIN outbox_message m ON m.id = i.message_id AND m.status = 'dead'
   SET i.outcome = IF(m.id IS NULL, 'skipped', 'requeued'), i.detail = IF(m.id IS NULL, 'its status changed', NULL),
       i.outcome_at = UTC_TIMESTAMP(3)
 WHERE i.run_id = @run;
INSERT INTO outbox_message_archive (id, message_id, topic, message_key, receiver, open_unit, sequence, subject, headers, content_type, payload,
       status, attempts, next_attempt_at, claim_token, claimed_by, claimed_until, error_message, error_kind, replay_count, replay_of,
       expires_at, created_at, updated_at, sent_at, archived_at, reason, run_id)
SELECT m.id, m.message_id, m.topic, m.message_key, m.receiver, m.open_unit, m.sequence, m.subject, m.headers, m.content_type, m.payload,
       m.status, m.attempts, m.next_attempt_at, m.claim_token, m.claimed_by, m.claimed_until, m.error_message, m.error_kind, m.replay_count,
       m.replay_of, m.expires_at, m.created_at, m.updated_at, m.sent_at, UTC_TIMESTAMP(3), CONCAT('replay: ', @reason), @run
  FROM outbox_message m JOIN replay_item i ON i.run_id = @run AND i.message_id = m.id AND i.outcome = 'requeued' ORDER BY m.id;
UPDATE outbox_message m JOIN replay_item i ON i.run_id = @run AND i.message_id = m.id AND i.outcome = 'requeued'
   SET m.status = 'pending', m.attempts = 0, m.next_attempt_at = UTC_TIMESTAMP(3),
       m.open_unit = IF(m.message_key IS NULL AND m.receiver IS NULL, NULL, CONV(LEFT(SHA2(CONCAT('outbox', 0x00,
         COALESCE(LENGTH(m.message_key), '-'), ':', COALESCE(m.message_key, ''), COALESCE(LENGTH(m.receiver), '-'), ':',
         COALESCE(m.receiver, '')), 256), 16), 16, 10)),
       m.sent_at = NULL, m.expires_at = NULL, m.error_kind = NULL, m.error_message = NULL, m.replay_count = m.replay_count + 1,
       m.claim_token = NULL, m.claimed_by = NULL, m.claimed_until = NULL, m.updated_at = UTC_TIMESTAMP(3)
 WHERE m.status = 'dead';
UPDATE replay_run r
   SET r.selected = (SELECT COUNT(*) FROM replay_item i WHERE i.run_id = @run),
       r.requeued = (SELECT COUNT(*) FROM replay_item i WHERE i.run_id = @run AND i.outcome = 'requeued'),
       r.skipped = (SELECT COUNT(*) FROM replay_item i WHERE i.run_id = @run AND i.outcome = 'skipped'),
       r.finished_at = UTC_TIMESTAMP(3)
 WHERE r.id = @run;
COMMIT;
SELECT r.id, r.selected, r.requeued, r.skipped FROM replay_run r WHERE r.id = @run;
