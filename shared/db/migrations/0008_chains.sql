-- What agents write to each other because of one message is a chain. Hops alone end a ring, but not a star: a hub that
-- writes to three agents, each of which writes back, has few hops and many messages. So the whole chain is counted.

CREATE TABLE chains (
    origin      TEXT PRIMARY KEY,      -- what began it (shared/core/hops.py); that row may be pruned
    sent        INTEGER NOT NULL CHECK (sent >= 0),    -- messages that agents sent because of it; answers do not count
    ended_at    INTEGER,               -- when the origin was told that not everything was sent
    last_active INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX chains_by_age ON chains (last_active);

CREATE TABLE chain_agents (            -- who wrote or was written to in it
    origin  TEXT NOT NULL REFERENCES chains (origin) ON DELETE CASCADE,
    agent   TEXT NOT NULL,
    told_at INTEGER,                   -- when it was told the same
    PRIMARY KEY (origin, agent)
) STRICT, WITHOUT ROWID;
