-- name: put_todo
INSERT INTO todo (todo_id, text, made_at, done_at) VALUES (?, ?, ?, ?)
ON CONFLICT (todo_id) DO UPDATE SET done_at = coalesce(todo.done_at, excluded.done_at)
RETURNING todo_id, text, made_at, done_at;

-- name: todos
SELECT todo_id, text, made_at, done_at FROM todo ORDER BY place DESC LIMIT ?;

-- name: open_todos
SELECT todo_id, text, made_at, done_at FROM todo WHERE done_at IS NULL ORDER BY place LIMIT ?;
