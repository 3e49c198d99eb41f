-- Things to be done, which outlive the tasks that note them. Safe before the code upgrade: an older
-- program refuses the newer schema at its start, and a running one neither reads nor misses these.

CREATE TABLE todo (
    place   BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,  -- order of noting
    todo_id TEXT COLLATE "C" NOT NULL UNIQUE,
    text    TEXT COLLATE "C" NOT NULL,
    made_at BIGINT NOT NULL,
    done_at BIGINT
);
CREATE INDEX todo_open ON todo (place) WHERE done_at IS NULL;
