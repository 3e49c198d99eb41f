-- The tables that one process needs. Safe before the code upgrade: there is nothing older.
-- Instants are microseconds since 1970 in UTC. JSON is UTF-8 in a BLOB.

-- Processes that take work; one row for each start of a process.
CREATE TABLE worker (
    worker_id  TEXT PRIMARY KEY,
    host       TEXT NOT NULL,
    pid        INTEGER NOT NULL,
    lock_path  TEXT NOT NULL,
    renewed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The changing half of each task. Its first event holds the rest.
CREATE TABLE task (
    key        INTEGER PRIMARY KEY,  -- in order of creation; short, since every event repeats it
    task_id    TEXT NOT NULL UNIQUE,
    trace_id   TEXT NOT NULL,
    agent      TEXT NOT NULL,
    session_id TEXT,
    state      TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    status     BLOB NOT NULL         -- hermes.core.task.TaskStatus
) STRICT;
CREATE INDEX task_state ON task (state, key);
CREATE INDEX task_agent ON task (agent, key);
CREATE INDEX task_session ON task (session_id, key) WHERE session_id IS NOT NULL;

-- The journal: only ever appended to.
CREATE TABLE event (
    position INTEGER PRIMARY KEY,    -- place in the whole journal
    task     INTEGER NOT NULL,       -- task.key
    seq      INTEGER NOT NULL,       -- place in the task's stream, from 1, without gaps
    event_id BLOB NOT NULL,          -- 16 bytes, made by the writer
    type     TEXT NOT NULL,
    version  INTEGER NOT NULL,       -- schema version of `data`
    token    INTEGER NOT NULL,       -- lease token of the writer
    at       INTEGER NOT NULL,
    data     BLOB NOT NULL,
    refs     BLOB                    -- {JSON path: SHA-256} of texts kept in `blob`
) STRICT;
CREATE UNIQUE INDEX event_stream ON event (task, seq);
CREATE UNIQUE INDEX event_by_id ON event (event_id);
CREATE UNIQUE INDEX event_settled ON event (task) WHERE type = 'task.settled';

-- Large texts and files, once each.
CREATE TABLE blob (
    sha256 BLOB PRIMARY KEY,         -- 32 bytes
    data   BLOB NOT NULL
) STRICT;

-- Messages that are not done, in their lanes.
CREATE TABLE message (
    place      INTEGER PRIMARY KEY,  -- order within its lane, and age
    message_id TEXT NOT NULL UNIQUE,
    lane       TEXT NOT NULL,
    receiver   TEXT NOT NULL,
    task_id    TEXT NOT NULL,
    state      TEXT NOT NULL CHECK (state IN ('delayed', 'held', 'ready', 'leased', 'dead')),
    priority   INTEGER NOT NULL,
    not_before INTEGER,
    attempts   INTEGER NOT NULL DEFAULT 0,
    crashes    INTEGER NOT NULL DEFAULT 0,
    worker_id  TEXT,                 -- who holds it
    token      INTEGER,              -- and since which claim of the lane
    reason     TEXT NOT NULL DEFAULT '',
    wire       BLOB NOT NULL         -- the envelope
) STRICT;
CREATE INDEX message_lane ON message (lane, place) WHERE state <> 'dead';
CREATE INDEX message_ready ON message (priority DESC, place) WHERE state = 'ready';
CREATE INDEX message_due ON message (not_before) WHERE state = 'delayed';
CREATE INDEX message_holder ON message (worker_id) WHERE state = 'leased';

-- How often each lane was claimed; outlives its messages, so that a token only grows.
CREATE TABLE lane (
    key   TEXT PRIMARY KEY,
    token INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Every message ever taken in; outlives it, so that a repeat is known.
CREATE TABLE accepted (
    message_id TEXT PRIMARY KEY,
    body       BLOB NOT NULL,        -- digest of the envelope
    receiver   TEXT NOT NULL,
    dedupe_key TEXT,
    task_id    TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX accepted_dedupe ON accepted (receiver, dedupe_key)
    WHERE dedupe_key IS NOT NULL;
