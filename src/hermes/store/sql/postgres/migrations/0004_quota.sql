-- The rates at which providers may be asked, counted for all processes. Safe before the code upgrade:
-- an older program refuses the newer schema at its start, and a running one counts by itself.

CREATE TABLE quota (
    key          TEXT COLLATE "C" PRIMARY KEY,  -- an account at a provider; no secret
    requests_at  BIGINT NOT NULL,               -- all in microseconds, as `Meter` has them
    tokens_at    BIGINT NOT NULL,
    paused_until BIGINT NOT NULL,
    lost         BIGINT NOT NULL
);
