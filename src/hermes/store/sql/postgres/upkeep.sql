-- name: count_tasks
SELECT state, count(*) FROM task GROUP BY state ORDER BY state;

-- name: count_messages
SELECT state, count(*) FROM message GROUP BY state ORDER BY state;

-- name: count_workers
SELECT count(*) FROM worker;

-- name: count_open_reviews
SELECT count(*) FROM review WHERE decision IS NULL;

-- name: size_bytes
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
FROM pg_class AS c
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r';

-- name: old_roots
SELECT DISTINCT root_id FROM task
WHERE root_id > %s AND updated_at < %s
ORDER BY root_id LIMIT %s;

-- name: lock_trees
-- Lanes first, as everywhere.
WITH lanes AS (
    SELECT key FROM lane WHERE key IN (SELECT task_id FROM task WHERE root_id = ANY(%s))
    ORDER BY key
    FOR UPDATE
)
SELECT count(*) FROM lanes;

-- name: lock_tasks_of_trees
SELECT 1 FROM task WHERE root_id = ANY(%s) ORDER BY task_id FOR UPDATE;

-- name: prunable
-- Tasks of those trees that nobody works on or asks for any more, with the number of their events.
WITH settled AS (
    SELECT root_id FROM unnest(%(roots)s::text[]) AS old (root_id)
    WHERE NOT EXISTS (
        SELECT 1 FROM task AS t
        WHERE t.root_id = old.root_id AND (
            t.updated_at >= %(before)s
            OR t.state IN ('pending', 'dispatched', 'processing', 'waiting')
            OR EXISTS (
                SELECT 1 FROM message AS m WHERE m.task_id = t.task_id AND m.state <> 'dead'
            )
            OR EXISTS (
                SELECT 1 FROM review AS r WHERE r.task_id = t.task_id AND r.decision IS NULL
            )
            OR EXISTS (
                SELECT 1 FROM task AS s
                WHERE s.session_id = t.session_id
                    AND s.state IN ('pending', 'dispatched', 'processing', 'waiting')
            )
        )
    )
)
SELECT t.key, t.task_id, (SELECT count(*) FROM event AS e WHERE e.task = t.key)
FROM task AS t
JOIN settled ON settled.root_id = t.root_id;

-- name: delete_events
DELETE FROM event WHERE task = ANY(%s);

-- name: delete_blob_uses
DELETE FROM blob_use WHERE task = ANY(%s);

-- name: delete_waits
DELETE FROM wait WHERE task_id = ANY(%s);

-- name: delete_reviews
DELETE FROM review WHERE task_id = ANY(%s);

-- name: delete_effects
DELETE FROM effect WHERE task_id = ANY(%s);

-- name: delete_shares
DELETE FROM budget_share WHERE task_id = ANY(%s) AND root_id IN (
    SELECT root_id FROM task WHERE task_id = budget_share.task_id
);

-- name: delete_budgets
DELETE FROM budget WHERE root_id = ANY(%s);

-- name: delete_dead_messages
DELETE FROM message WHERE task_id = ANY(%s) AND state = 'dead';

-- name: delete_lanes
-- Of the tasks, and of their messages that were alone in theirs.
DELETE FROM lane WHERE key IN (
    SELECT unnest(%(task_ids)s::text[])
    UNION ALL
    SELECT message_id FROM accepted WHERE task_id = ANY(%(task_ids)s)
);

-- name: delete_accepted
DELETE FROM accepted WHERE task_id = ANY(%s);

-- name: delete_tasks
DELETE FROM task WHERE key = ANY(%s);

-- name: delete_old_signals
DELETE FROM signal WHERE name IN (
    SELECT name FROM signal AS s
    WHERE at < %s AND NOT EXISTS (
        SELECT 1 FROM wait WHERE kind = 'event' AND key = s.name AND ended = 0
    )
    LIMIT %s
)
RETURNING 1;

-- name: delete_unused_blobs
DELETE FROM blob WHERE sha256 IN (
    SELECT sha256 FROM blob AS b
    WHERE NOT EXISTS (SELECT 1 FROM blob_use AS u WHERE u.sha256 = b.sha256)
    LIMIT %s
)
RETURNING octet_length(data);

-- name: unused_blobs
-- As if those tasks were gone.
SELECT octet_length(data) FROM blob AS b
WHERE NOT EXISTS (
    SELECT 1 FROM blob_use AS u WHERE u.sha256 = b.sha256 AND u.task <> ALL(%s)
);

-- name: vacuum
VACUUM (ANALYZE) event, blob, blob_use, task, wait, review, effect, message, lane, accepted, signal;

-- name: vacuum_full
-- Gives the space back to the disk, but nobody can use the tables meanwhile.
VACUUM (FULL, ANALYZE) event, blob, blob_use, task, wait, review, effect, message, lane, accepted,
    signal;
