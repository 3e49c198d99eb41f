-- Things to be done, which outlive the tasks that note them. Safe before the code upgrade: an older
-- program refuses the newer schema at its start, and a running one neither reads nor misses these.

CREATE TABLE todo (
    place   INTEGER PRIMARY KEY,                -- order of noting
    todo_id TEXT NOT NULL UNIQUE,
    text    TEXT NOT NULL,
    made_at INTEGER NOT NULL,
    done_at INTEGER
);
CREATE INDEX todo_open ON todo (place) WHERE done_at IS NULL;
