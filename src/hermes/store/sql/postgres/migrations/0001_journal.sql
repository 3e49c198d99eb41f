-- The tables that one process needs. Safe before the code upgrade: there is nothing older.
-- The same as for SQLite. Instants are microseconds since 1970 in UTC. JSON is UTF-8 in BYTEA, since
-- PostgreSQL's own text and JSON hold no NUL. Ids sort by their bytes.

-- Processes that take work; one row for each start of a process.
CREATE TABLE worker (
    worker_id  TEXT COLLATE "C" PRIMARY KEY,
    host       TEXT NOT NULL,
    pid        BIGINT NOT NULL,
    lock_path  TEXT NOT NULL,
    renewed_at BIGINT NOT NULL
);

-- The changing half of each task. Its first event holds the rest.
CREATE TABLE task (
    key        BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,  -- in order of creation
    task_id    TEXT COLLATE "C" NOT NULL UNIQUE,
    trace_id   TEXT NOT NULL,
    agent      TEXT COLLATE "C" NOT NULL,
    session_id TEXT COLLATE "C",
    state      TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    status     BYTEA NOT NULL        -- hermes.core.task.TaskStatus
) WITH (fillfactor = 80);
CREATE INDEX task_state ON task (state, key);
CREATE INDEX task_agent ON task (agent, key);
CREATE INDEX task_session ON task (session_id, key) WHERE session_id IS NOT NULL;

-- The journal: only ever appended to.
CREATE TABLE event (
    position BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,  -- place in the whole journal
    task     BIGINT NOT NULL,        -- task.key
    seq      BIGINT NOT NULL,        -- place in the task's stream, from 1, without gaps
    event_id BYTEA NOT NULL,         -- 16 bytes, made by the writer
    type     TEXT COLLATE "C" NOT NULL,
    version  INTEGER NOT NULL,       -- schema version of `data`
    token    BIGINT NOT NULL,        -- lease token of the writer
    at       BIGINT NOT NULL,
    data     BYTEA NOT NULL,
    refs     BYTEA                   -- {JSON path: SHA-256} of texts kept in `blob`
);
CREATE UNIQUE INDEX event_stream ON event (task, seq);
CREATE UNIQUE INDEX event_by_id ON event (event_id);
CREATE UNIQUE INDEX event_settled ON event (task) WHERE type = 'task.settled';

-- Large texts and files, once each.
CREATE TABLE blob (
    sha256 BYTEA PRIMARY KEY,        -- 32 bytes
    data   BYTEA NOT NULL
);

-- Messages that are not done, in their lanes.
CREATE SEQUENCE message_place;
CREATE TABLE message (
    place      BIGINT PRIMARY KEY DEFAULT nextval('message_place'),  -- order in its lane, and age
    message_id TEXT COLLATE "C" NOT NULL UNIQUE,
    lane       TEXT COLLATE "C" NOT NULL,
    receiver   TEXT COLLATE "C" NOT NULL,
    task_id    TEXT COLLATE "C" NOT NULL,
    state      TEXT COLLATE "C" NOT NULL
        CHECK (state IN ('delayed', 'held', 'ready', 'leased', 'dead')),
    priority   BIGINT NOT NULL,
    not_before BIGINT,
    attempts   BIGINT NOT NULL DEFAULT 0,
    crashes    BIGINT NOT NULL DEFAULT 0,
    worker_id  TEXT COLLATE "C",     -- who holds it
    token      BIGINT,               -- and since which claim of the lane
    reason     TEXT NOT NULL DEFAULT '',
    wire       BYTEA NOT NULL        -- the envelope
);
CREATE INDEX message_lane ON message (lane, place) WHERE state <> 'dead';
CREATE INDEX message_ready ON message (priority DESC, place) WHERE state = 'ready';
CREATE INDEX message_due ON message (not_before) WHERE state = 'delayed';
CREATE INDEX message_holder ON message (worker_id) WHERE state = 'leased';

-- How often each lane was claimed; outlives its messages, so that a token only grows. Its row is
-- the lane's lock: whoever changes the lane's messages takes it first.
CREATE TABLE lane (
    key   TEXT COLLATE "C" PRIMARY KEY,
    token BIGINT NOT NULL
) WITH (fillfactor = 80);

-- Every message ever taken in; outlives it, so that a repeat is known.
CREATE TABLE accepted (
    message_id TEXT COLLATE "C" PRIMARY KEY,
    body       BYTEA NOT NULL,       -- digest of the envelope
    receiver   TEXT COLLATE "C" NOT NULL,
    dedupe_key TEXT COLLATE "C",
    task_id    TEXT COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX accepted_dedupe ON accepted (receiver, dedupe_key)
    WHERE dedupe_key IS NOT NULL;
