-- name: insert_events
-- The first ones of a task that is being created.
INSERT INTO event (task, token, seq, event_id, type, version, at, data, refs)
SELECT
    (SELECT key FROM task WHERE task_id = %(task_id)s), 0,
    e.seq, e.event_id, e.type, e.version, e.at, e.data, e.refs
FROM unnest(
    %(seqs)s::bigint[], %(event_ids)s::bytea[], %(types)s::text[], %(versions)s::integer[],
    %(ats)s::bigint[], %(datas)s::bytea[], %(refs)s::bytea[]
) AS e (seq, event_id, type, version, at, data, refs);

-- name: append_events
WITH appended AS (
    INSERT INTO event (task, token, seq, event_id, type, version, at, data, refs)
    SELECT
        %(key)s::bigint, %(token)s::bigint,
        e.seq, e.event_id, e.type, e.version, e.at, e.data, e.refs
    FROM unnest(
        %(seqs)s::bigint[], %(event_ids)s::bytea[], %(types)s::text[], %(versions)s::integer[],
        %(ats)s::bigint[], %(datas)s::bytea[], %(refs)s::bytea[]
    ) AS e (seq, event_id, type, version, at, data, refs)
)
UPDATE task SET updated_at = %(updated_at)s, status = %(status)s, state = %(state)s
WHERE key = %(key)s;

-- name: append_event
-- As `append_events`: most appends are of one, and seven lists cost more than the rest of it.
WITH appended AS (
    INSERT INTO event (task, token, seq, event_id, type, version, at, data, refs)
    VALUES (
        %(key)s, %(token)s, %(seqs)s, %(event_ids)s, %(types)s, %(versions)s, %(ats)s, %(datas)s,
        %(refs)s
    )
)
UPDATE task SET updated_at = %(updated_at)s, status = %(status)s, state = %(state)s
WHERE key = %(key)s;

-- name: append_next_event
-- `hold` and `append_event` in one: the fence, whether the task stands as it was left, the append.
-- Only what is leased has a worker and a token. With `state`, or a join of the two tables, a
-- planner that knows nothing of them yet reads all leases of the worker, or all tasks.
WITH held AS (
    SELECT task_id FROM message
    WHERE message_id = %(message_id)s AND worker_id = %(worker_id)s AND token = %(token)s
    FOR NO KEY UPDATE
),
task AS (
    UPDATE task SET updated_at = %(updated_at)s, status = %(status)s, state = %(state)s
    FROM held
    WHERE task.task_id = %(task_id)s AND task.status = %(known)s
    RETURNING task.key
)
INSERT INTO event (task, token, seq, event_id, type, version, at, data, refs)
SELECT
    key, %(token)s::bigint, %(seqs)s::bigint, %(event_ids)s, %(types)s, %(versions)s::integer,
    %(ats)s::bigint, %(datas)s, %(refs)s
FROM task;

-- name: append_next
-- As `append_next_event`, for several leases and any number of events of each; gives the ids of what
-- it appended. It waits for no row: a lease or a task that another one has locked is left out, so
-- that nobody waits for the others' locks, in whatever order they come.
-- The limit lets nobody out; with it, a plan that is kept reckons with few rows and goes by ids.
WITH held AS (
    SELECT g.place, g.token, g.updated_at, g.status, g.state, t.key
    FROM unnest(
        %(message_id)s::text[], %(task_id)s::text[], %(worker_id)s::text[], %(token)s::bigint[],
        %(known)s::bytea[], %(updated_at)s::bigint[], %(status)s::bytea[], %(state)s::text[]
    ) WITH ORDINALITY
        AS g (message_id, task_id, worker_id, token, known, updated_at, status, state, place)
    CROSS JOIN LATERAL (
        SELECT FROM message AS m
        WHERE m.message_id = g.message_id AND m.worker_id = g.worker_id AND m.token = g.token
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS m
    CROSS JOIN LATERAL (
        SELECT t.key FROM task AS t
        WHERE t.task_id = g.task_id AND t.status = g.known
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS t
    LIMIT %(count)s::bigint
),
task AS (
    UPDATE task SET updated_at = held.updated_at, status = held.status, state = held.state
    FROM held
    WHERE task.key = held.key
    RETURNING task.key, held.place, held.token
)
INSERT INTO event (task, token, seq, event_id, type, version, at, data, refs)
SELECT task.key, task.token, e.seq, e.event_id, e.type, e.version, e.at, e.data, e.refs
FROM task
JOIN unnest(
    %(places)s::bigint[], %(seqs)s::bigint[], %(event_ids)s::bytea[], %(types)s::text[],
    %(versions)s::integer[], %(ats)s::bigint[], %(datas)s::bytea[], %(refs)s::bytea[]
) AS e (place, seq, event_id, type, version, at, data, refs) ON e.place = task.place
RETURNING event_id;

-- name: event_ids_from
SELECT e.event_id FROM event AS e
JOIN task AS t ON t.key = e.task
WHERE t.task_id = %s AND e.seq >= %s
ORDER BY e.seq LIMIT %s;

-- name: events_with_token
SELECT count(*) FROM event WHERE event_id = ANY(%s) AND token = %s;

-- name: events_after
SELECT t.trace_id, e.position, e.token, e.seq, e.event_id, e.type, e.version, e.at, e.data, e.refs
FROM task AS t
JOIN event AS e ON e.task = t.key
WHERE t.task_id = %s AND e.seq > %s
ORDER BY e.seq;

-- name: insert_blobs
-- In the order of their hashes, so that two writers of the same ones do not wait for each other.
INSERT INTO blob (sha256, data)
SELECT b.sha256, b.data FROM unnest(%s::bytea[], %s::bytea[]) AS b (sha256, data)
ORDER BY b.sha256
ON CONFLICT DO NOTHING;

-- name: insert_blob_uses
INSERT INTO blob_use (task, sha256)
SELECT (SELECT key FROM task WHERE task_id = %s), unnest(%s::bytea[])
ON CONFLICT DO NOTHING;

-- name: keep_blobs
-- Nobody removes blobs before this transaction has ended.
SELECT pg_advisory_xact_lock_shared(hashtextextended('hermes.blob', 0));

-- name: lock_blobs
SELECT pg_advisory_xact_lock(hashtextextended('hermes.blob', 0));

-- name: blobs
SELECT sha256, data FROM blob WHERE sha256 = ANY(%s);
