-- The budgets of trees of tasks. Safe before the code upgrade: an older program refuses the newer
-- schema at its start, and a running one neither reads nor misses these.

-- What a tree may spend; NULL means no bound.
CREATE TABLE budget (
    root_id     TEXT PRIMARY KEY,
    model_calls INTEGER,
    tool_calls  INTEGER,
    tokens      INTEGER,
    cost_nano   INTEGER,                     -- billionths of the currency
    time_us     INTEGER                      -- microseconds at work
) STRICT, WITHOUT ROWID;

-- What each task of it may spend, counted from the task's beginning.
CREATE TABLE budget_share (
    root_id     TEXT NOT NULL,
    task_id     TEXT NOT NULL,
    model_calls INTEGER NOT NULL,
    tool_calls  INTEGER NOT NULL,
    tokens      INTEGER NOT NULL,
    cost_nano   INTEGER NOT NULL,
    time_us     INTEGER NOT NULL,
    is_final    INTEGER NOT NULL DEFAULT 0, -- the task is settled, and this is what it has spent
    PRIMARY KEY (root_id, task_id)
) STRICT, WITHOUT ROWID;
