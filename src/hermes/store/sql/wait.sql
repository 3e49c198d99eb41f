-- name: insert_wait
INSERT INTO wait (wait_id, task_id, path, kind, key, due_at, place)
VALUES (
    :wait_id, :task_id, :path, :kind, :key, :due_at,
    (SELECT coalesce(max(place), 0) + 1 FROM wait WHERE task_id = :task_id)
)
ON CONFLICT (wait_id) DO NOTHING
RETURNING 1;

-- name: end_wait
-- Not one that its time has ended before.
UPDATE wait SET ended = 1, answer = :answer
WHERE wait_id = :wait_id AND ended = 0
    AND (due_at IS NULL OR due_at > :now OR kind = 'person')
RETURNING task_id;

-- name: open_waits_for_event
SELECT wait_id FROM wait WHERE kind = 'event' AND key = ? AND ended = 0 ORDER BY task_id, place;

-- name: open_waits_for_children
-- By the task alone: many parents wait under the same path.
SELECT wait_id FROM wait
WHERE task_id = ? AND +kind = 'children' AND +key = ? AND ended = 0
ORDER BY place;

-- name: unsettled_child
SELECT 1 FROM task
WHERE parent_id = ? AND parent_path = ?
    AND state IN ('pending', 'dispatched', 'processing', 'waiting')
LIMIT 1;

-- name: delete_wait
DELETE FROM wait WHERE wait_id = ?;

-- name: delete_waits_of_task
DELETE FROM wait WHERE task_id = ? RETURNING wait_id;

-- name: waits
SELECT wait_id, task_id, path, kind, key, due_at, ended, answer FROM wait
WHERE task_id = ?
ORDER BY place;

-- name: insert_signal
INSERT INTO signal (name, payload, at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING RETURNING 1;

-- name: signal
SELECT payload FROM signal WHERE name = ?;
