-- name: new_meter
INSERT INTO quota (key, requests_at, tokens_at, paused_until, lost) VALUES (%s, 0, 0, 0, 0)
ON CONFLICT (key) DO NOTHING;

-- name: meter
SELECT requests_at, tokens_at, paused_until, lost FROM quota WHERE key = %s FOR UPDATE;

-- name: quota_clock
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- name: put_meter
UPDATE quota SET requests_at = %s, tokens_at = %s, paused_until = %s, lost = %s WHERE key = %s;
