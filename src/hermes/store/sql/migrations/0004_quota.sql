-- The rates at which providers may be asked, counted for all processes. Safe before the code upgrade:
-- an older program refuses the newer schema at its start, and a running one counts by itself.

CREATE TABLE quota (
    key          TEXT PRIMARY KEY,              -- an account at a provider; no secret
    requests_at  INTEGER NOT NULL,              -- all in microseconds, as `Meter` has them
    tokens_at    INTEGER NOT NULL,
    paused_until INTEGER NOT NULL,
    lost         INTEGER NOT NULL
) WITHOUT ROWID;
