-- name: count_tasks
SELECT state, count(*) FROM task GROUP BY state ORDER BY state;

-- name: count_messages
SELECT state, count(*) FROM message GROUP BY state ORDER BY state;

-- name: count_workers
SELECT count(*) FROM worker;

-- name: count_open_reviews
SELECT count(*) FROM review WHERE decision IS NULL;

-- name: old_roots
SELECT DISTINCT root_id FROM task
WHERE root_id > :after AND updated_at < :before
ORDER BY root_id LIMIT :limit;

-- name: is_prunable
SELECT
    NOT EXISTS (
        SELECT 1 FROM task
        WHERE root_id = :root_id AND (
            updated_at >= :before
            OR state IN ('pending', 'dispatched', 'processing', 'waiting')
        )
    )
    AND NOT EXISTS (
        SELECT 1 FROM task AS t
        JOIN message AS m ON m.task_id = t.task_id AND m.state <> 'dead'
        WHERE t.root_id = :root_id
    )
    AND NOT EXISTS (
        SELECT 1 FROM task AS t
        JOIN review AS r ON r.task_id = t.task_id AND r.decision IS NULL
        WHERE t.root_id = :root_id
    )
    AND NOT EXISTS (
        SELECT 1 FROM task AS t
        JOIN task AS s INDEXED BY task_unsettled ON s.session_id = t.session_id
            AND s.state IN ('pending', 'dispatched', 'processing', 'waiting')
        WHERE t.root_id = :root_id
    );

-- name: tasks_of_tree
-- Children first, since they are younger than their parents.
SELECT t.key, (SELECT count(*) FROM event WHERE task = t.key) FROM task AS t
WHERE t.root_id = ?
ORDER BY t.key DESC;

-- name: delete_events
DELETE FROM event WHERE task = :key;

-- name: delete_blob_uses
DELETE FROM blob_use WHERE task = :key;

-- name: delete_waits
DELETE FROM wait WHERE task_id = (SELECT task_id FROM task WHERE key = :key);

-- name: delete_reviews
DELETE FROM review WHERE task_id = (SELECT task_id FROM task WHERE key = :key);

-- name: delete_effects
DELETE FROM effect WHERE task_id = (SELECT task_id FROM task WHERE key = :key);

-- name: delete_shares
DELETE FROM budget_share
WHERE root_id = (SELECT root_id FROM task WHERE key = :key)
    AND task_id = (SELECT task_id FROM task WHERE key = :key);

-- name: delete_budget
DELETE FROM budget WHERE root_id = (SELECT task_id FROM task WHERE key = :key);

-- name: delete_dead_messages
DELETE FROM message WHERE task_id = (SELECT task_id FROM task WHERE key = :key);

-- name: delete_lanes
-- Of the task, and of its messages that were alone in theirs.
DELETE FROM lane WHERE key IN (
    SELECT task_id FROM task WHERE key = :key
    UNION ALL
    SELECT message_id FROM accepted WHERE task_id = (SELECT task_id FROM task WHERE key = :key)
);

-- name: delete_accepted
DELETE FROM accepted WHERE task_id = (SELECT task_id FROM task WHERE key = :key);

-- name: delete_task
DELETE FROM task WHERE key = :key;

-- name: delete_old_signals
DELETE FROM signal WHERE name IN (
    SELECT name FROM signal AS s
    WHERE at < ? AND NOT EXISTS (
        SELECT 1 FROM wait WHERE kind = 'event' AND key = s.name AND ended = 0
    )
    LIMIT ?
);

-- name: unused_blobs
SELECT sha256 FROM blob AS b
WHERE NOT EXISTS (SELECT 1 FROM blob_use AS u WHERE u.sha256 = b.sha256);

-- name: delete_unused_blob
DELETE FROM blob
WHERE sha256 = ?1 AND NOT EXISTS (SELECT 1 FROM blob_use WHERE sha256 = ?1)
RETURNING length(data);

-- name: count_unused_blobs
SELECT count(*), coalesce(sum(length(data)), 0) FROM blob AS b
WHERE NOT EXISTS (
    SELECT 1 FROM blob_use AS u
    WHERE u.sha256 = b.sha256 AND u.task NOT IN (SELECT value FROM json_each(?))
);
