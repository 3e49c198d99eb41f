-- The budgets of trees of tasks. Safe before the code upgrade: an older program refuses the newer
-- schema at its start, and a running one neither reads nor misses these.

-- What a tree may spend; NULL means no bound.
CREATE TABLE budget (
    root_id     TEXT COLLATE "C" PRIMARY KEY,
    model_calls BIGINT,
    tool_calls  BIGINT,
    tokens      BIGINT,
    cost_nano   BIGINT,                     -- billionths of the currency
    time_us     BIGINT                      -- microseconds at work
);

-- What each task of it may spend, counted from the task's beginning.
CREATE TABLE budget_share (
    root_id     TEXT COLLATE "C" NOT NULL,
    task_id     TEXT COLLATE "C" NOT NULL,
    model_calls BIGINT NOT NULL,
    tool_calls  BIGINT NOT NULL,
    tokens      BIGINT NOT NULL,
    cost_nano   BIGINT NOT NULL,
    time_us     BIGINT NOT NULL,
    is_final    INTEGER NOT NULL DEFAULT 0, -- the task is settled, and this is what it has spent
    PRIMARY KEY (root_id, task_id)
);
