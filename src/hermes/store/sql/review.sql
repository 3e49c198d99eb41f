-- name: insert_review
INSERT INTO review (review_id, wait_id, task_id, path, reason, name, text, data, created_at)
VALUES (:review_id, :wait_id, :task_id, :path, :reason, :name, :text, :data, :created_at)
ON CONFLICT (review_id) DO NOTHING;

-- name: decide_review
UPDATE review SET decision = :decision, answer = :answer, by = :by, decided_at = :now
WHERE review_id = :review_id AND decision IS NULL;

-- name: close_reviews_of_task
UPDATE review SET decision = 'cancel', by = ?, decided_at = ?
WHERE task_id = ? AND decision IS NULL;

-- name: review
SELECT review_id, wait_id, task_id, path, reason, name, text, created_at, data,
    decision, answer, by, decided_at
FROM review
WHERE review_id = ?;

-- name: open_reviews
SELECT review_id, wait_id, task_id, path, reason, name, text, created_at, data,
    decision, answer, by, decided_at
FROM review
WHERE decision IS NULL
ORDER BY place LIMIT :limit;

-- name: reviews_of_task
SELECT review_id, wait_id, task_id, path, reason, name, text, created_at, data,
    decision, answer, by, decided_at
FROM review
WHERE task_id = :task_id AND (:is_open IS NULL OR (decision IS NULL) = :is_open)
ORDER BY place LIMIT :limit;

-- name: reviews
SELECT review_id, wait_id, task_id, path, reason, name, text, created_at, data,
    decision, answer, by, decided_at
FROM review
WHERE :is_open IS NULL OR (decision IS NULL) = :is_open
ORDER BY place LIMIT :limit;

-- name: effect
SELECT scope, tool, key, state, task_id, path FROM effect
WHERE scope = ? AND tool = ? AND key = ?;

-- name: write_effect
INSERT INTO effect (scope, tool, key, state, task_id, path)
VALUES (:scope, :tool, :key, :state, :task_id, :path)
ON CONFLICT (scope, tool, key) DO UPDATE SET
    state = excluded.state, task_id = excluded.task_id, path = excluded.path;
