-- name: insert_event
INSERT INTO event (task, token, seq, event_id, type, version, at, data, refs)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: event_ids_from
SELECT event_id FROM event WHERE task = ? AND seq >= ? ORDER BY seq LIMIT ?;

-- name: event_token
SELECT token FROM event WHERE event_id = ?;

-- name: events_after
SELECT t.trace_id, e.position, e.token, e.seq, e.event_id, e.type, e.version, e.at, e.data, e.refs
FROM task AS t
JOIN event AS e ON e.task = t.key
WHERE t.task_id = ? AND e.seq > ?
ORDER BY e.seq;

-- name: insert_blob
INSERT INTO blob (sha256, data) VALUES (?, ?) ON CONFLICT DO NOTHING;

-- name: blob
SELECT data FROM blob WHERE sha256 = ?;

-- name: insert_blob_use
INSERT INTO blob_use (task, sha256) VALUES (?, ?) ON CONFLICT DO NOTHING;
