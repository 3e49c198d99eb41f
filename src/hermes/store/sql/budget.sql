-- name: keep_budget
-- The bounds in force, those that are given if there were none; also the lock of the budget.
INSERT INTO budget (root_id, model_calls, tool_calls, tokens, cost_nano, time_us)
VALUES (:root_id, :model_calls, :tool_calls, :tokens,
    :cost_nano, :time_us)
ON CONFLICT (root_id) DO UPDATE SET root_id = excluded.root_id
RETURNING model_calls, tool_calls, tokens, cost_nano, time_us;

-- name: put_budget
INSERT INTO budget (root_id, model_calls, tool_calls, tokens, cost_nano, time_us)
VALUES (:root_id, :model_calls, :tool_calls, :tokens,
    :cost_nano, :time_us)
ON CONFLICT (root_id) DO UPDATE SET
    model_calls = excluded.model_calls, tool_calls = excluded.tool_calls, tokens = excluded.tokens,
    cost_nano = excluded.cost_nano, time_us = excluded.time_us;

-- name: budget
SELECT model_calls, tool_calls, tokens, cost_nano, time_us FROM budget WHERE root_id = :root_id;

-- name: budget_members
-- The tasks of a tree whose share may still change.
SELECT t.task_id, t.status, s.model_calls, s.tool_calls, s.tokens, s.cost_nano, s.time_us
FROM task AS t
LEFT JOIN budget_share AS s ON s.root_id = t.root_id AND s.task_id = t.task_id
WHERE t.root_id = :root_id AND coalesce(s.is_final, 0) = 0;

-- name: final_shares
SELECT count(*), coalesce(sum(model_calls), 0), coalesce(sum(tool_calls), 0),
    coalesce(sum(tokens), 0), coalesce(sum(cost_nano), 0), coalesce(sum(time_us), 0)
FROM budget_share
WHERE root_id = :root_id AND is_final = 1;

-- name: put_share
INSERT INTO budget_share (
    root_id, task_id, model_calls, tool_calls, tokens, cost_nano, time_us, is_final
)
VALUES (
    :root_id, :task_id, :model_calls, :tool_calls, :tokens,
    :cost_nano, :time_us, :is_final
)
ON CONFLICT (root_id, task_id) DO UPDATE SET
    model_calls = excluded.model_calls, tool_calls = excluded.tool_calls, tokens = excluded.tokens,
    cost_nano = excluded.cost_nano, time_us = excluded.time_us, is_final = excluded.is_final;
