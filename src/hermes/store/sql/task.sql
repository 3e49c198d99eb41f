-- name: insert_task
-- Work for a task that is to be cancelled is to be cancelled, too.
INSERT INTO task (
    task_id, trace_id, agent, session_id, parent_id, parent_path, root_id, state,
    created_at, updated_at, status, cancel_requested
)
VALUES (
    :task_id, :trace_id, :agent, :session_id, :parent_id, :parent_path, :root_id, :state,
    :created_at, :updated_at, :status,
    coalesce((SELECT cancel_requested FROM task WHERE task_id = :parent_id), 0)
)
ON CONFLICT (task_id) DO NOTHING
RETURNING key;

-- name: update_status
UPDATE task SET updated_at = ?, status = ? WHERE key = ?;

-- name: update_next_status
-- Only while the task stands as its holder left it, and the lease is still his.
UPDATE task SET status = ?
WHERE key = ? AND status = ? AND EXISTS (
    SELECT 1 FROM message
    WHERE place = ? AND message_id = ? AND state = 'leased' AND worker_id = ? AND token = ?
);

-- name: update_next_status_and_place
UPDATE task SET updated_at = ?, status = ?
WHERE key = ? AND status = ? AND EXISTS (
    SELECT 1 FROM message
    WHERE place = ? AND message_id = ? AND state = 'leased' AND worker_id = ? AND token = ?
);

-- name: update_status_and_state
UPDATE task SET updated_at = ?, status = ?, state = ? WHERE key = ?;

-- name: task_key
SELECT key FROM task WHERE task_id = ?;

-- name: task_places
SELECT key, updated_at FROM task WHERE task_id = ?;

-- name: newest_tasks
SELECT key FROM task
WHERE key < :before
ORDER BY key DESC LIMIT :limit;

-- name: newest_tasks_in_state
SELECT key FROM task
WHERE state = :state AND key < :before
ORDER BY key DESC LIMIT :limit;

-- name: newest_tasks_of_agent
SELECT key FROM task INDEXED BY task_agent
WHERE agent = :agent AND key < :before
    AND (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))
ORDER BY key DESC LIMIT :limit;

-- name: newest_tasks_of_session
SELECT key FROM task INDEXED BY task_session
WHERE session_id = :session_id AND key < :before
    AND (:agent IS NULL OR agent = :agent)
    AND (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))
ORDER BY key DESC LIMIT :limit;

-- name: newest_tasks_of_parent
SELECT key FROM task INDEXED BY task_parent
WHERE parent_id = :parent_id AND key < :before
    AND (:session_id IS NULL OR session_id = :session_id)
    AND (:agent IS NULL OR agent = :agent)
    AND (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))
ORDER BY key DESC LIMIT :limit;

-- name: count_some_of_parent
SELECT count(*) FROM (SELECT 1 FROM task WHERE parent_id = :parent_id LIMIT :many);

-- name: count_some_of_session
SELECT count(*) FROM (SELECT 1 FROM task WHERE session_id = :session_id LIMIT :many);

-- name: count_some_of_agent
SELECT count(*) FROM (SELECT 1 FROM task WHERE agent = :agent LIMIT :many);

-- name: count_some_in_states
SELECT count(*) FROM (
    SELECT 1 FROM task INDEXED BY task_state
    WHERE state IN (SELECT value FROM json_each(:states)) LIMIT :many
);

-- name: last_changed_tasks
-- Walks all tasks in this order, in the index alone.
SELECT key FROM task INDEXED BY task_updated
WHERE (updated_at, key) < (:before_at, :before)
    AND (:parent_id IS NULL OR parent_id = :parent_id)
    AND (:session_id IS NULL OR session_id = :session_id)
    AND (:agent IS NULL OR agent = :agent)
    AND (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))
ORDER BY updated_at DESC, key DESC LIMIT :limit;

-- name: last_changed_tasks_of_parent
SELECT key FROM task INDEXED BY task_parent
WHERE parent_id = :parent_id AND (updated_at, key) < (:before_at, :before)
    AND (:session_id IS NULL OR session_id = :session_id)
    AND (:agent IS NULL OR agent = :agent)
    AND (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))
ORDER BY updated_at DESC, key DESC LIMIT :limit;

-- name: last_changed_tasks_of_session
SELECT key FROM task INDEXED BY task_session
WHERE session_id = :session_id AND (updated_at, key) < (:before_at, :before)
    AND (:parent_id IS NULL OR parent_id = :parent_id)
    AND (:agent IS NULL OR agent = :agent)
    AND (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))
ORDER BY updated_at DESC, key DESC LIMIT :limit;

-- name: last_changed_tasks_of_agent
SELECT key FROM task INDEXED BY task_agent
WHERE agent = :agent AND (updated_at, key) < (:before_at, :before)
    AND (:parent_id IS NULL OR parent_id = :parent_id)
    AND (:session_id IS NULL OR session_id = :session_id)
    AND (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))
ORDER BY updated_at DESC, key DESC LIMIT :limit;

-- name: last_changed_tasks_in_states
SELECT key FROM task INDEXED BY task_state
WHERE state IN (SELECT value FROM json_each(:states))
    AND (updated_at, key) < (:before_at, :before)
    AND (:parent_id IS NULL OR parent_id = :parent_id)
    AND (:session_id IS NULL OR session_id = :session_id)
    AND (:agent IS NULL OR agent = :agent)
ORDER BY updated_at DESC, key DESC LIMIT :limit;

-- name: tasks_by_key
-- In the order of the keys.
SELECT t.task_id, t.trace_id, t.status, e.at, e.type, e.version, e.data, e.refs
FROM json_each(?) AS k
CROSS JOIN task AS t ON t.key = k.value
CROSS JOIN event AS e ON e.task = t.key AND e.seq = 1
ORDER BY k.key;

-- name: task_address
SELECT agent, trace_id FROM task WHERE task_id = ?;

-- name: request_cancel
WITH RECURSIVE tree (task_id) AS (
    SELECT :task_id
    UNION
    SELECT t.task_id FROM tree JOIN task AS t ON t.parent_id = tree.task_id
)
UPDATE task SET cancel_requested = 1
WHERE task_id IN (SELECT task_id FROM tree)
    AND state IN ('pending', 'dispatched', 'processing', 'waiting')
RETURNING key, task_id, agent, trace_id;

-- name: cancels
SELECT t.task_id
FROM message AS m
JOIN task AS t ON t.task_id = m.task_id
WHERE m.worker_id = ? AND m.state = 'leased' AND t.cancel_requested = 1
    AND t.state IN ('pending', 'dispatched', 'processing', 'waiting')
ORDER BY t.key;
