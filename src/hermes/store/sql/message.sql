-- name: accepted_message
SELECT body, task_id FROM accepted WHERE message_id = ?;

-- name: accepted_dedupe_key
SELECT task_id FROM accepted WHERE receiver = ? AND dedupe_key = ?;

-- name: insert_accepted
INSERT INTO accepted (message_id, body, receiver, dedupe_key, task_id)
VALUES (:message_id, :body, :receiver, :dedupe_key, :task_id);

-- name: note_accepted
INSERT INTO accepted (message_id, body, receiver, dedupe_key, task_id)
VALUES (:message_id, :body, :receiver, :dedupe_key, :task_id)
ON CONFLICT DO NOTHING;

-- name: insert_message
INSERT INTO message (message_id, lane, receiver, task_id, state, priority, not_before, wire)
VALUES (
    :message_id, :lane, :receiver, :task_id,
    CASE
        WHEN EXISTS (SELECT 1 FROM message WHERE lane = :lane AND state <> 'dead') THEN 'held'
        WHEN :not_before > :now THEN 'delayed'
        ELSE 'ready'
    END,
    :priority, :not_before, :wire
);

-- name: promote_due
UPDATE message SET state = 'ready' WHERE state = 'delayed' AND not_before <= ?;

-- name: ready_messages
SELECT place, lane, attempts, crashes, wire FROM message
WHERE state = 'ready'
    AND (:receivers IS NULL OR receiver IN (SELECT value FROM json_each(:receivers)))
ORDER BY priority DESC, place LIMIT :limit;

-- name: ready_messages_of
-- Of one task, or of a task and all below it.
WITH RECURSIVE tree (task_id) AS (
    SELECT coalesce(:root_id, :task_id)
    UNION
    SELECT t.task_id FROM tree JOIN task AS t ON t.parent_id = tree.task_id
    WHERE :root_id IS NOT NULL
)
SELECT m.place, m.lane, m.attempts, m.crashes, m.wire
FROM tree CROSS JOIN message AS m INDEXED BY message_task ON m.task_id = tree.task_id
WHERE m.state = 'ready' AND (:task_id IS NULL OR m.task_id = :task_id)
    AND (:receivers IS NULL OR m.receiver IN (SELECT value FROM json_each(:receivers)))
ORDER BY m.priority DESC, m.place LIMIT :limit;

-- name: ready_place
SELECT place FROM message WHERE message_id = ? AND state = 'ready';

-- name: next_token
INSERT INTO lane (key, token) VALUES (?, 1)
ON CONFLICT (key) DO UPDATE SET token = token + 1
RETURNING token;

-- name: take_message
UPDATE message SET state = 'leased', worker_id = ?, token = ? WHERE place = ?;

-- name: leased_message
-- The fence: a row only for the worker and the token that hold the message now.
SELECT m.place, t.key, t.trace_id, t.status, t.agent, t.parent_id, t.parent_path, t.cancel_requested
FROM message AS m
LEFT JOIN task AS t ON t.task_id = m.task_id
WHERE m.message_id = ? AND m.state = 'leased' AND m.worker_id = ? AND m.token = ?;

-- name: message_state
SELECT state FROM message WHERE message_id = ?;

-- name: delete_message
DELETE FROM message WHERE place = ?;

-- name: requeue_message
UPDATE message SET
    place = (SELECT max(place) + 1 FROM message),
    state = 'held', not_before = :retry_at, attempts = attempts + 1, reason = :reason,
    worker_id = NULL, token = NULL
WHERE place = :place;

-- name: bury_message
UPDATE message SET
    state = 'dead', attempts = attempts + 1, reason = ?, worker_id = NULL, token = NULL
WHERE place = ?;

-- name: release_message
UPDATE message SET state = 'ready', worker_id = NULL, token = NULL WHERE place = ?;

-- name: release_all_of_worker
UPDATE message SET state = 'ready', crashes = crashes + ?, worker_id = NULL, token = NULL
WHERE worker_id = ? AND state = 'leased';

-- name: advance_lane
-- The head of a lane, if it is held, becomes ready or delayed.
UPDATE message SET state = CASE WHEN not_before > :now THEN 'delayed' ELSE 'ready' END
WHERE place = (SELECT min(place) FROM message WHERE lane = :lane AND state <> 'dead')
    AND state = 'held';

-- name: messages
SELECT state, attempts, crashes, worker_id, not_before, reason, wire FROM message
WHERE :lane IS NULL OR lane = :lane
ORDER BY place;

-- name: messages_about
SELECT state, attempts, crashes, worker_id, not_before, reason, wire FROM message
WHERE task_id = :task_id AND (:lane IS NULL OR lane = :lane)
ORDER BY place;

-- name: messages_of_task
SELECT message_id, lane, state FROM message WHERE task_id = ? AND state <> 'dead' ORDER BY place;

-- name: delete_dead_of_task
DELETE FROM message WHERE task_id = ? AND state = 'dead';

-- name: delete_free_message
DELETE FROM message WHERE message_id = ? AND state IN ('delayed', 'held', 'ready')
RETURNING lane;

-- name: hurry_message
UPDATE message SET
    not_before = NULL, state = CASE state WHEN 'delayed' THEN 'held' ELSE state END
WHERE message_id = ? AND state IN ('delayed', 'held');

-- name: waiting_in_lane
SELECT place, message_id, not_before FROM message
WHERE lane = ? AND state <> 'dead' AND state IN ('delayed', 'held')
ORDER BY place;

-- name: move_message
UPDATE message SET place = ?, state = 'held' WHERE place = ?;

-- name: is_work_due
SELECT EXISTS (SELECT 1 FROM message WHERE state = 'delayed' AND not_before <= ?);
