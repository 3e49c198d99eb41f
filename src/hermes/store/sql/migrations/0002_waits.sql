-- Waits, reviews, business keys, trees of tasks. Safe before the code upgrade: an older program
-- refuses the newer schema at its start, and a running one neither reads nor misses these.

-- A task's place in its tree, and the wish to end it.
ALTER TABLE task ADD COLUMN parent_id TEXT;
ALTER TABLE task ADD COLUMN parent_path TEXT;       -- the wait for children that it counts for
ALTER TABLE task ADD COLUMN root_id TEXT;
ALTER TABLE task ADD COLUMN cancel_requested INTEGER NOT NULL DEFAULT 0;
UPDATE task SET root_id = task_id;
UPDATE task SET
    parent_id = made.parent_id,
    parent_path = iif(made.parent_id IS NULL, NULL, made.parent_path),
    root_id = coalesce(made.root_id, task.task_id)
FROM (
    SELECT
        task,
        CAST(data AS TEXT) ->> '$.parent_id' AS parent_id,
        coalesce(CAST(data AS TEXT) ->> '$.parent_path', '') AS parent_path,
        CAST(data AS TEXT) ->> '$.root_id' AS root_id
    FROM event
    WHERE seq = 1
) AS made
WHERE made.task = task.key AND (made.parent_id IS NOT NULL OR made.root_id IS NOT NULL);
CREATE INDEX task_parent ON task (parent_id, parent_path, state) WHERE parent_id IS NOT NULL;
CREATE INDEX task_root ON task (root_id);
-- These hold what lists are filtered by: a long walk for a rare match then reads an index alone.
CREATE INDEX task_updated ON task (updated_at, key, state, agent, session_id, parent_id);
DROP INDEX task_agent;
CREATE INDEX task_agent ON task (agent, key, state);
DROP INDEX task_session;
CREATE INDEX task_session ON task (session_id, key, state, agent) WHERE session_id IS NOT NULL;
CREATE INDEX task_unsettled ON task (session_id)
    WHERE state IN ('pending', 'dispatched', 'processing', 'waiting') AND session_id IS NOT NULL;
CREATE INDEX message_task ON message (task_id);
CREATE INDEX accepted_task ON accepted (task_id);

-- What tasks wait for, without a process and without a lease.
CREATE TABLE wait (
    wait_id TEXT PRIMARY KEY,
    task_id TEXT NOT NULL,
    path    TEXT NOT NULL,                          -- the call that waits
    kind    TEXT NOT NULL CHECK (kind IN ('person', 'children', 'time', 'event')),
    key     TEXT NOT NULL,                          -- review id, parent path of the children, name of the event
    due_at  INTEGER,
    ended   INTEGER NOT NULL DEFAULT 0,
    answer  BLOB,
    place   INTEGER NOT NULL                        -- order of beginning within its task
) STRICT, WITHOUT ROWID;
CREATE INDEX wait_task ON wait (task_id, place);
CREATE INDEX wait_key ON wait (kind, key) WHERE ended = 0;

-- Questions to people; outlive their decision.
CREATE TABLE review (
    place      INTEGER PRIMARY KEY,
    review_id  TEXT NOT NULL UNIQUE,
    wait_id    TEXT NOT NULL,
    task_id    TEXT NOT NULL,
    path       TEXT NOT NULL,
    reason     TEXT NOT NULL,
    name       TEXT NOT NULL,
    text       TEXT NOT NULL,
    data       BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    decision   TEXT,
    answer     BLOB,
    by         TEXT NOT NULL DEFAULT '',
    decided_at INTEGER
) STRICT;
CREATE INDEX review_open ON review (place) WHERE decision IS NULL;
CREATE INDEX review_task ON review (task_id, place);

-- Events from outside that have happened; a later wait for one ends at once.
CREATE TABLE signal (
    name    TEXT PRIMARY KEY,
    payload BLOB NOT NULL,
    at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Business keys: deeds that are to be done once, in whatever words.
CREATE TABLE effect (
    scope   TEXT NOT NULL,                          -- a root task's id, or '' for all
    tool    TEXT NOT NULL,
    key     TEXT NOT NULL,
    state   TEXT NOT NULL CHECK (state IN ('started', 'done', 'failed')),
    task_id TEXT NOT NULL,
    path    TEXT NOT NULL,
    PRIMARY KEY (scope, tool, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX effect_task ON effect (task_id);

-- Which tasks refer to which blobs, so that prune knows what nobody needs.
CREATE TABLE blob_use (
    task   INTEGER NOT NULL,                        -- task.key
    sha256 BLOB NOT NULL,
    PRIMARY KEY (task, sha256)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_use_blob ON blob_use (sha256);
INSERT OR IGNORE INTO blob_use (task, sha256)
SELECT e.task, unhex(r.value)
FROM event AS e, json_each(CAST(e.refs AS TEXT)) AS r
WHERE e.refs IS NOT NULL;
INSERT OR IGNORE INTO blob_use (task, sha256)
SELECT task, unhex(CAST(data AS TEXT) ->> '$.blob') FROM event
WHERE type = 'tool.returned' AND CAST(data AS TEXT) ->> '$.blob' IS NOT NULL;
INSERT OR IGNORE INTO blob_use (task, sha256)
SELECT task, unhex(CAST(data AS TEXT) ->> '$.sha256') FROM event
WHERE type = 'artifact.saved' AND CAST(data AS TEXT) ->> '$.sha256' IS NOT NULL;
