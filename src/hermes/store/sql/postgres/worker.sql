-- name: register_worker
INSERT INTO worker (worker_id, host, pid, lock_path, renewed_at)
VALUES (
    %(worker_id)s, %(host)s, %(pid)s, %(lock_path)s,
    coalesce(
        %(renewed_at)s::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
    )
)
ON CONFLICT (worker_id) DO UPDATE SET
    host = excluded.host, pid = excluded.pid, lock_path = excluded.lock_path,
    renewed_at = excluded.renewed_at;

-- name: renew_worker
UPDATE worker SET renewed_at = coalesce(
    %s::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
)
WHERE worker_id = %s
RETURNING 1;

-- name: keep_worker
-- It is not retired before this transaction has ended.
SELECT 1 FROM worker WHERE worker_id = %s FOR KEY SHARE;

-- name: delete_worker
DELETE FROM worker WHERE worker_id = %s;

-- name: workers
SELECT worker_id, host, pid, lock_path, renewed_at,
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
FROM worker
ORDER BY worker_id;

-- name: silent_blockers
-- What waits for its client has nothing to do; a client that is alive sends more at once.
SELECT pid FROM pg_stat_activity
WHERE pid = ANY(pg_blocking_pids(%(pid)s))
    AND wait_event_type = 'Client'
    AND state_change < clock_timestamp() - make_interval(secs => %(patience_s)s);

-- name: end_session
SELECT pg_terminate_backend(%s);
