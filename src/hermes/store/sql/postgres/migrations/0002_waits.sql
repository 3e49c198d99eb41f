-- Waits, reviews, business keys, trees of tasks. Safe before the code upgrade: an older program
-- refuses the newer schema at its start, and a running one neither reads nor misses these.

-- A task's place in its tree, and the wish to end it.
ALTER TABLE task ADD COLUMN parent_id TEXT COLLATE "C";
ALTER TABLE task ADD COLUMN parent_path TEXT COLLATE "C";  -- the wait for children it counts for
ALTER TABLE task ADD COLUMN root_id TEXT COLLATE "C";
ALTER TABLE task ADD COLUMN cancel_requested INTEGER NOT NULL DEFAULT 0;
UPDATE task SET root_id = task_id;
CREATE INDEX task_parent ON task (parent_id, parent_path, state) WHERE parent_id IS NOT NULL;
CREATE INDEX task_root ON task (root_id);
CREATE INDEX task_updated ON task (updated_at, key);
CREATE INDEX message_task ON message (task_id);
CREATE INDEX accepted_task ON accepted (task_id);

-- What tasks wait for, without a process and without a lease.
CREATE TABLE wait (
    wait_id TEXT COLLATE "C" PRIMARY KEY,
    task_id TEXT COLLATE "C" NOT NULL,
    path    TEXT COLLATE "C" NOT NULL,               -- the call that waits
    kind    TEXT COLLATE "C" NOT NULL CHECK (kind IN ('person', 'children', 'time', 'event')),
    key     TEXT COLLATE "C" NOT NULL,               -- review id, parent path of the children, name of the event
    due_at  BIGINT,
    ended   INTEGER NOT NULL DEFAULT 0,
    answer  BYTEA,
    place   BIGINT GENERATED ALWAYS AS IDENTITY      -- order of beginning within its task
);
CREATE INDEX wait_task ON wait (task_id, place);
CREATE INDEX wait_key ON wait (kind, key) WHERE ended = 0;

-- Questions to people; outlive their decision.
CREATE TABLE review (
    place      BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    review_id  TEXT COLLATE "C" NOT NULL UNIQUE,
    wait_id    TEXT COLLATE "C" NOT NULL,
    task_id    TEXT COLLATE "C" NOT NULL,
    path       TEXT NOT NULL,
    reason     TEXT COLLATE "C" NOT NULL,
    name       TEXT NOT NULL,
    text       TEXT NOT NULL,
    data       BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    decision   TEXT COLLATE "C",
    answer     BYTEA,
    by         TEXT NOT NULL DEFAULT '',
    decided_at BIGINT
);
CREATE INDEX review_open ON review (place) WHERE decision IS NULL;
CREATE INDEX review_task ON review (task_id, place);

-- Events from outside that have happened; a later wait for one ends at once.
CREATE TABLE signal (
    name    TEXT COLLATE "C" PRIMARY KEY,
    payload BYTEA NOT NULL,
    at      BIGINT NOT NULL
);

-- Business keys: deeds that are to be done once, in whatever words.
CREATE TABLE effect (
    scope   TEXT COLLATE "C" NOT NULL,               -- a root task's id, or '' for all
    tool    TEXT COLLATE "C" NOT NULL,
    key     TEXT COLLATE "C" NOT NULL,
    state   TEXT COLLATE "C" NOT NULL CHECK (state IN ('started', 'done', 'failed')),
    task_id TEXT COLLATE "C" NOT NULL,
    path    TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (scope, tool, key)
);
CREATE INDEX effect_task ON effect (task_id);

-- Which tasks refer to which blobs, so that prune knows what nobody needs.
CREATE TABLE blob_use (
    task   BIGINT NOT NULL,                          -- task.key
    sha256 BYTEA NOT NULL,
    PRIMARY KEY (task, sha256)
);
CREATE INDEX blob_use_blob ON blob_use (sha256);
