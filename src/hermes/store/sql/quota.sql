-- name: meter
SELECT requests_at, tokens_at, paused_until, lost FROM quota WHERE key = ?;

-- name: put_meter
INSERT INTO quota (key, requests_at, tokens_at, paused_until, lost) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET
    requests_at = excluded.requests_at,
    tokens_at = excluded.tokens_at,
    paused_until = excluded.paused_until,
    lost = excluded.lost;
