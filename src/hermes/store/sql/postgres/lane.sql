-- name: ensure_lanes
INSERT INTO lane (key, token) SELECT key, 0 FROM unnest(%s::text[]) AS key ORDER BY key
ON CONFLICT DO NOTHING;

-- name: ensure_parent_lane
INSERT INTO lane (key, token)
SELECT parent_id, 0 FROM task WHERE task_id = %s AND parent_id IS NOT NULL
ON CONFLICT DO NOTHING;

-- name: lock_lanes_and_parents
SELECT key FROM lane
WHERE key = ANY(%s) OR key = (SELECT parent_id FROM task WHERE task_id = %s)
ORDER BY key
FOR NO KEY UPDATE;

-- name: lock_lanes
SELECT key, token FROM lane WHERE key = ANY(%s) ORDER BY key FOR NO KEY UPDATE;

-- name: claim
-- What another one holds at the moment is left out, so that a claim waits for nobody.
WITH picked AS (
    SELECT m.place, m.lane, m.priority, m.attempts, m.crashes, m.wire
    FROM message AS m
    JOIN lane AS l ON l.key = m.lane
    WHERE m.state = 'ready'
        AND (%(task_id)s::text IS NULL OR m.task_id = %(task_id)s)
        AND (
            %(root_id)s::text IS NULL
            OR m.task_id IN (
                WITH RECURSIVE tree (task_id) AS (
                    SELECT task_id FROM task WHERE task_id = %(root_id)s
                    UNION ALL SELECT t.task_id FROM task AS t JOIN tree ON t.parent_id = tree.task_id
                )
                SELECT task_id FROM tree
            )
        )
        AND (%(receivers)s::text[] IS NULL OR m.receiver = ANY(%(receivers)s))
    ORDER BY m.priority DESC, m.place
    LIMIT %(limit)s
    FOR NO KEY UPDATE OF m, l SKIP LOCKED
),
grown AS (
    UPDATE lane SET token = lane.token + 1
    FROM picked
    WHERE lane.key = picked.lane
    RETURNING lane.key, lane.token
),
taken AS (
    UPDATE message SET state = 'leased', worker_id = %(worker_id)s, token = grown.token
    FROM picked
    JOIN grown ON grown.key = picked.lane
    WHERE message.place = picked.place
    RETURNING message.place, message.token
)
SELECT p.place, p.lane, p.attempts, p.crashes, p.wire, t.token
FROM picked AS p
JOIN taken AS t ON t.place = p.place
ORDER BY p.priority DESC, p.place;

-- name: claim_new
-- The message that was just put, if it is ready and the worker is registered.
WITH grown AS (
    UPDATE lane SET token = token + 1
    WHERE key = %(lane)s
        AND EXISTS (
            SELECT 1 FROM message WHERE message_id = %(message_id)s AND state = 'ready'
        )
        AND EXISTS (SELECT 1 FROM worker WHERE worker_id = %(worker_id)s)
    RETURNING token
)
UPDATE message SET state = 'leased', worker_id = %(worker_id)s, token = grown.token
FROM grown
WHERE message_id = %(message_id)s
RETURNING message.token;

-- name: still_leased
SELECT place, token FROM message
WHERE place = ANY(%s) AND state = 'leased' AND worker_id = %s
FOR NO KEY UPDATE;
