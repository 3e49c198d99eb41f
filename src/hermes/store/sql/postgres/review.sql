-- name: insert_review
INSERT INTO review (review_id, wait_id, task_id, path, reason, name, text, data, created_at)
VALUES (
    %(review_id)s, %(wait_id)s, %(task_id)s, %(path)s, %(reason)s, %(name)s, %(text)s,
    %(data)s, %(created_at)s
)
ON CONFLICT (review_id) DO NOTHING;

-- name: decide_review
UPDATE review SET decision = %(decision)s, answer = %(answer)s, by = %(by)s, decided_at = %(now)s
WHERE review_id = %(review_id)s AND decision IS NULL;

-- name: close_reviews_of_task
UPDATE review SET decision = 'cancel', by = %s, decided_at = %s
WHERE task_id = %s AND decision IS NULL;

-- name: review
SELECT review_id, wait_id, task_id, path, reason, name, text, created_at, data,
    decision, answer, by, decided_at
FROM review
WHERE review_id = %s;

-- name: open_reviews
SELECT review_id, wait_id, task_id, path, reason, name, text, created_at, data,
    decision, answer, by, decided_at
FROM review
WHERE decision IS NULL
ORDER BY place LIMIT %(limit)s;

-- name: reviews_of_task
SELECT review_id, wait_id, task_id, path, reason, name, text, created_at, data,
    decision, answer, by, decided_at
FROM review
WHERE task_id = %(task_id)s
    AND (%(is_open)s::boolean IS NULL OR (decision IS NULL) = %(is_open)s)
ORDER BY place LIMIT %(limit)s;

-- name: reviews
SELECT review_id, wait_id, task_id, path, reason, name, text, created_at, data,
    decision, answer, by, decided_at
FROM review
WHERE %(is_open)s::boolean IS NULL OR (decision IS NULL) = %(is_open)s
ORDER BY place LIMIT %(limit)s;

-- name: effect
SELECT scope, tool, key, state, task_id, path FROM effect
WHERE scope = %s AND tool = %s AND key = %s;

-- name: lock_effect
-- A row that another transaction is about to write is waited for.
INSERT INTO effect (scope, tool, key, state, task_id, path)
VALUES (%(scope)s, %(tool)s, %(key)s, %(state)s, %(task_id)s, %(path)s)
ON CONFLICT DO NOTHING
RETURNING 1;

-- name: locked_effect
SELECT scope, tool, key, state, task_id, path FROM effect
WHERE scope = %s AND tool = %s AND key = %s
FOR UPDATE;

-- name: update_effect
UPDATE effect SET state = %(state)s, task_id = %(task_id)s, path = %(path)s
WHERE scope = %(scope)s AND tool = %(tool)s AND key = %(key)s;
