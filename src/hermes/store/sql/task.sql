-- name: insert_task
INSERT INTO task (task_id, trace_id, agent, session_id, state, created_at, updated_at, status)
VALUES (:task_id, :trace_id, :agent, :session_id, :state, :created_at, :updated_at, :status)
ON CONFLICT (task_id) DO NOTHING
RETURNING key;

-- name: update_status
UPDATE task SET updated_at = ?, status = ? WHERE key = ?;

-- name: update_state
UPDATE task SET state = ? WHERE key = ?;

-- name: task_key
SELECT key FROM task WHERE task_id = ?;

-- name: newest_tasks
SELECT key FROM task
WHERE key < :before
ORDER BY key DESC LIMIT :limit;

-- name: newest_tasks_in_states
SELECT key FROM task
WHERE state IN (SELECT value FROM json_each(:states)) AND key < :before
ORDER BY key DESC LIMIT :limit;

-- name: newest_tasks_of_agent
SELECT key FROM task
WHERE agent = :agent AND key < :before
    AND (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))
ORDER BY key DESC LIMIT :limit;

-- name: newest_tasks_of_session
SELECT key FROM task
WHERE session_id = :session_id AND key < :before
    AND (:agent IS NULL OR agent = :agent)
    AND (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))
ORDER BY key DESC LIMIT :limit;

-- name: tasks_by_key
SELECT t.task_id, t.trace_id, t.status, e.at, e.type, e.version, e.data, e.refs
FROM task AS t
JOIN event AS e ON e.task = t.key AND e.seq = 1
WHERE t.key IN (SELECT value FROM json_each(?))
ORDER BY t.key DESC;
