-- name: lock_event_names
-- Begins of waits share an event's name; its signal takes it alone.
SELECT pg_advisory_xact_lock_shared(hash) FROM (
    SELECT DISTINCT hashtextextended(name, 0) AS hash FROM unnest(%s::text[]) AS name
) AS names
ORDER BY hash;

-- name: lock_event_name
SELECT pg_advisory_xact_lock(hashtextextended(%s, 0));

-- name: insert_wait
INSERT INTO wait (wait_id, task_id, path, kind, key, due_at)
VALUES (%(wait_id)s, %(task_id)s, %(path)s, %(kind)s, %(key)s, %(due_at)s)
ON CONFLICT (wait_id) DO NOTHING
RETURNING 1;

-- name: end_wait
-- Not one that its time has ended before.
UPDATE wait SET ended = 1, answer = %(answer)s
WHERE wait_id = %(wait_id)s AND ended = 0
    AND (due_at IS NULL OR due_at > %(now)s OR kind = 'person')
RETURNING task_id;

-- name: tasks_waiting_for_event
SELECT DISTINCT task_id FROM wait WHERE kind = 'event' AND key = %s AND ended = 0;

-- name: open_waits_for_event
SELECT wait_id FROM wait WHERE kind = 'event' AND key = %s AND ended = 0 ORDER BY task_id, place;

-- name: open_waits_for_children
SELECT wait_id FROM wait
WHERE task_id = %s AND kind = 'children' AND key = %s AND ended = 0
ORDER BY place;

-- name: unsettled_child
SELECT 1 FROM task
WHERE parent_id = %s AND parent_path = %s
    AND state IN ('pending', 'dispatched', 'processing', 'waiting')
LIMIT 1;

-- name: delete_wait
DELETE FROM wait WHERE wait_id = %s;

-- name: delete_waits_of_task
DELETE FROM wait WHERE task_id = %s RETURNING wait_id;

-- name: waits
SELECT wait_id, task_id, path, kind, key, due_at, ended, answer FROM wait
WHERE task_id = %s
ORDER BY place;

-- name: insert_signal
INSERT INTO signal (name, payload, at) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING RETURNING 1;

-- name: signal
SELECT payload, at FROM signal WHERE name = %s;
