-- name: register_worker
INSERT INTO worker (worker_id, host, pid, lock_path, renewed_at)
VALUES (:worker_id, :host, :pid, :lock_path, :renewed_at)
ON CONFLICT (worker_id) DO UPDATE SET
    host = excluded.host, pid = excluded.pid, lock_path = excluded.lock_path,
    renewed_at = excluded.renewed_at;

-- name: renew_worker
UPDATE worker SET renewed_at = ? WHERE worker_id = ? RETURNING 1;

-- name: find_worker
SELECT 1 FROM worker WHERE worker_id = ?;

-- name: delete_worker
DELETE FROM worker WHERE worker_id = ?;

-- name: workers
SELECT worker_id, host, pid, lock_path, renewed_at FROM worker ORDER BY worker_id;
