-- name: accepted_message
SELECT body, task_id FROM accepted WHERE message_id = %s;

-- name: accepted_dedupe_key
SELECT task_id FROM accepted WHERE receiver = %s AND dedupe_key = %s;

-- name: accept
-- Waits for another transaction that takes in the same id or dedupe key at the moment.
INSERT INTO accepted (message_id, body, receiver, dedupe_key, task_id)
VALUES (%(message_id)s, %(body)s, %(receiver)s, %(dedupe_key)s, %(task_id)s)
ON CONFLICT DO NOTHING
RETURNING 1;

-- name: insert_message
INSERT INTO message (message_id, lane, receiver, task_id, state, priority, not_before, wire)
VALUES (
    %(message_id)s, %(lane)s, %(receiver)s, %(task_id)s,
    CASE
        WHEN EXISTS (SELECT 1 FROM message WHERE lane = %(lane)s AND state <> 'dead') THEN 'held'
        WHEN %(not_before)s::bigint > %(now)s::bigint THEN 'delayed'
        ELSE 'ready'
    END,
    %(priority)s, %(not_before)s::bigint, %(wire)s
);

-- name: promote_due
UPDATE message SET state = 'ready' WHERE place IN (
    SELECT place FROM message WHERE state = 'delayed' AND not_before <= %s
    FOR NO KEY UPDATE SKIP LOCKED
);

-- name: leased_message
-- The fence: a row only for the worker and the token that hold the message now.
SELECT place FROM message
WHERE message_id = %s AND state = 'leased' AND worker_id = %s AND token = %s;

-- name: hold
-- The fence of an append that changes no other message: nobody changes a leased message without
-- its lock, so the lane's is not needed.
SELECT m.place,
    t.task_id, t.key, t.trace_id, t.status, t.agent, t.parent_id, t.parent_path, t.cancel_requested
FROM message AS m
JOIN task AS t ON t.task_id = m.task_id
WHERE m.message_id = %s AND m.state = 'leased' AND m.worker_id = %s AND m.token = %s
FOR NO KEY UPDATE;

-- name: lease_of
SELECT token, attempts, crashes FROM message
WHERE message_id = %s AND state = 'leased' AND worker_id = %s;

-- name: message_state
SELECT state, attempts FROM message WHERE message_id = %s;

-- name: delete_message
DELETE FROM message WHERE place = %s;

-- name: requeue_message
UPDATE message SET
    place = nextval('message_place'),
    state = 'held', not_before = %(retry_at)s, attempts = attempts + 1, reason = %(reason)s,
    worker_id = NULL, token = NULL
WHERE place = %(place)s;

-- name: bury_message
UPDATE message SET
    state = 'dead', attempts = attempts + 1, reason = %s, worker_id = NULL, token = NULL
WHERE place = %s;

-- name: release_message
UPDATE message SET state = 'ready', worker_id = NULL, token = NULL WHERE place = %s;

-- name: lanes_of_worker
SELECT DISTINCT lane FROM message WHERE worker_id = %s AND state = 'leased';

-- name: release_all_of_worker
UPDATE message SET state = 'ready', crashes = crashes + %s, worker_id = NULL, token = NULL
WHERE worker_id = %s AND state = 'leased'
RETURNING 1;

-- name: advance_lane
-- The head of a lane, if it is held, becomes ready or delayed.
UPDATE message SET
    state = CASE WHEN not_before > %(now)s::bigint THEN 'delayed' ELSE 'ready' END
WHERE place = (SELECT min(place) FROM message WHERE lane = %(lane)s AND state <> 'dead')
    AND state = 'held';

-- name: messages
SELECT state, attempts, crashes, worker_id, not_before, reason, wire FROM message
WHERE (%(task_id)s::text IS NULL OR task_id = %(task_id)s)
    AND (%(lane)s::text IS NULL OR lane = %(lane)s)
ORDER BY place;

-- name: note_accepted
INSERT INTO accepted (message_id, body, receiver, dedupe_key, task_id)
VALUES (%(message_id)s, %(body)s, %(receiver)s, %(dedupe_key)s, %(task_id)s)
ON CONFLICT DO NOTHING;

-- name: messages_of_task
SELECT message_id, lane, state FROM message WHERE task_id = %s AND state <> 'dead' ORDER BY place;

-- name: delete_dead_of_task
DELETE FROM message WHERE task_id = %s AND state = 'dead';

-- name: delete_free_message
DELETE FROM message WHERE message_id = %s AND state IN ('delayed', 'held', 'ready')
RETURNING lane;

-- name: hurry_message
UPDATE message SET
    not_before = NULL, state = CASE state WHEN 'delayed' THEN 'held' ELSE state END
WHERE message_id = %s AND state IN ('delayed', 'held');

-- name: waiting_in_lane
SELECT place, message_id, not_before FROM message
WHERE lane = %s AND state IN ('delayed', 'held')
ORDER BY place;

-- name: set_aside
UPDATE message SET place = -place, state = 'held' WHERE place = ANY(%s);

-- name: put_in_order
UPDATE message SET place = moved.place
FROM unnest(%s::bigint[], %s::bigint[]) AS moved (old, place)
WHERE message.place = -moved.old;

-- name: next_due
SELECT min(not_before) FROM message WHERE state = 'delayed';
