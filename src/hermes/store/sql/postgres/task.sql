-- name: insert_task
-- Work for a task that is to be cancelled is to be cancelled, too.
INSERT INTO task (
    task_id, trace_id, agent, session_id, parent_id, parent_path, root_id, state,
    created_at, updated_at, status, cancel_requested
)
VALUES (
    %(task_id)s, %(trace_id)s, %(agent)s, %(session_id)s, %(parent_id)s, %(parent_path)s,
    %(root_id)s, %(state)s, %(created_at)s, %(updated_at)s, %(status)s,
    coalesce((SELECT cancel_requested FROM task WHERE task_id = %(parent_id)s), 0)
);

-- name: lock_task
SELECT task_id, key, trace_id, status, agent, parent_id, parent_path, cancel_requested FROM task
WHERE task_id = %s
FOR NO KEY UPDATE;

-- name: lock_task_and_parent
SELECT task_id, key, trace_id, status, agent, parent_id, parent_path, cancel_requested FROM task
WHERE task_id = %(task_id)s
    OR task_id = (SELECT parent_id FROM task WHERE task_id = %(task_id)s)
ORDER BY task_id
FOR NO KEY UPDATE;

-- name: task_exists
SELECT 1 FROM task WHERE task_id = %s;

-- name: task_place
SELECT key, updated_at FROM task WHERE task_id = %s;

-- name: first_event_id
SELECT e.event_id FROM event AS e
JOIN task AS t ON t.key = e.task
WHERE t.task_id = %s AND e.seq = 1;

-- name: task
SELECT t.task_id, t.trace_id, t.status, e.at, e.type, e.version, e.data, e.refs
FROM task AS t
JOIN event AS e ON e.task = t.key AND e.seq = 1
WHERE t.task_id = %s;

-- name: newest_tasks
SELECT t.task_id, t.trace_id, t.status, e.at, e.type, e.version, e.data, e.refs
FROM (
    SELECT * FROM task
    WHERE key < %(before)s
    ORDER BY key DESC LIMIT %(limit)s
) AS t
JOIN event AS e ON e.task = t.key AND e.seq = 1
ORDER BY t.key DESC;

-- name: newest_tasks_in_states
-- State by state along its index, whatever their numbers.
SELECT t.task_id, t.trace_id, t.status, e.at, e.type, e.version, e.data, e.refs
FROM (
    SELECT found.*
    FROM unnest(%(states)s::text[]) AS wanted (state)
    CROSS JOIN LATERAL (
        SELECT * FROM task
        WHERE task.state = wanted.state AND key < %(before)s
        ORDER BY key DESC LIMIT %(limit)s
    ) AS found
    ORDER BY found.key DESC LIMIT %(limit)s
) AS t
JOIN event AS e ON e.task = t.key AND e.seq = 1
ORDER BY t.key DESC;

-- name: newest_tasks_of_agent
SELECT t.task_id, t.trace_id, t.status, e.at, e.type, e.version, e.data, e.refs
FROM (
    SELECT * FROM task
    WHERE agent = %(agent)s AND key < %(before)s
        AND (%(states)s::text[] IS NULL OR state = ANY(%(states)s))
    ORDER BY key DESC LIMIT %(limit)s
) AS t
JOIN event AS e ON e.task = t.key AND e.seq = 1
ORDER BY t.key DESC;

-- name: newest_tasks_of_session
SELECT t.task_id, t.trace_id, t.status, e.at, e.type, e.version, e.data, e.refs
FROM (
    SELECT * FROM task
    WHERE session_id = %(session_id)s AND key < %(before)s
        AND (%(agent)s::text IS NULL OR agent = %(agent)s)
        AND (%(states)s::text[] IS NULL OR state = ANY(%(states)s))
    ORDER BY key DESC LIMIT %(limit)s
) AS t
JOIN event AS e ON e.task = t.key AND e.seq = 1
ORDER BY t.key DESC;

-- name: newest_tasks_of_parent
SELECT t.task_id, t.trace_id, t.status, e.at, e.type, e.version, e.data, e.refs
FROM (
    SELECT * FROM task
    WHERE parent_id = %(parent_id)s AND key < %(before)s
        AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
        AND (%(agent)s::text IS NULL OR agent = %(agent)s)
        AND (%(states)s::text[] IS NULL OR state = ANY(%(states)s))
    ORDER BY key DESC LIMIT %(limit)s
) AS t
JOIN event AS e ON e.task = t.key AND e.seq = 1
ORDER BY t.key DESC;

-- name: last_changed_tasks
SELECT t.task_id, t.trace_id, t.status, e.at, e.type, e.version, e.data, e.refs
FROM (
    SELECT * FROM task
    WHERE (updated_at, key) < (%(changed_before)s, %(before)s)
        AND (%(parent_id)s::text IS NULL OR parent_id = %(parent_id)s)
        AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
        AND (%(agent)s::text IS NULL OR agent = %(agent)s)
        AND (%(states)s::text[] IS NULL OR state = ANY(%(states)s))
    ORDER BY updated_at DESC, key DESC LIMIT %(limit)s
) AS t
JOIN event AS e ON e.task = t.key AND e.seq = 1
ORDER BY t.updated_at DESC, t.key DESC;

-- name: task_address
SELECT agent, trace_id FROM task WHERE task_id = %s;

-- name: tree_lanes
-- Lanes of a task and all below it, with those of their messages.
WITH RECURSIVE tree (task_id) AS (
    SELECT %(task_id)s::text COLLATE "C"
    UNION
    SELECT t.task_id FROM tree JOIN task AS t ON t.parent_id = tree.task_id
)
SELECT task_id FROM tree
UNION
SELECT m.lane FROM message AS m JOIN tree ON tree.task_id = m.task_id;

-- name: request_cancel
WITH RECURSIVE tree (task_id) AS (
    SELECT %(task_id)s::text COLLATE "C"
    UNION
    SELECT t.task_id FROM tree JOIN task AS t ON t.parent_id = tree.task_id
)
UPDATE task SET cancel_requested = 1
WHERE task_id IN (SELECT task_id FROM tree) AND cancel_requested = 0
    AND state IN ('pending', 'dispatched', 'processing', 'waiting')
RETURNING task_id;

-- name: to_cancel
WITH RECURSIVE tree (task_id) AS (
    SELECT %(task_id)s::text COLLATE "C"
    UNION
    SELECT t.task_id FROM tree JOIN task AS t ON t.parent_id = tree.task_id
)
SELECT task_id, agent, trace_id FROM task
WHERE task_id IN (SELECT task_id FROM tree)
    AND state IN ('pending', 'dispatched', 'processing', 'waiting')
ORDER BY key;

-- name: cancels
SELECT t.task_id
FROM message AS m
JOIN task AS t ON t.task_id = m.task_id
WHERE m.worker_id = %s AND m.state = 'leased' AND t.cancel_requested = 1
    AND t.state IN ('pending', 'dispatched', 'processing', 'waiting')
ORDER BY t.key;
