-- What turns took from models, and the limits on it. No foreign key: an agent that is deleted has still spent.
CREATE TABLE usage (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    turn         TEXT NOT NULL,
    agent        TEXT NOT NULL,
    session      TEXT NOT NULL,
    model        TEXT NOT NULL,
    paid_by      TEXT NOT NULL CHECK (paid_by = 'plan' OR paid_by = 'key'),
    requests     INTEGER NOT NULL CHECK (requests >= 1),
    input        INTEGER NOT NULL CHECK (input >= 0),        -- tokens, without those of the cache
    output       INTEGER NOT NULL CHECK (output >= 0),
    cache_read   INTEGER NOT NULL CHECK (cache_read >= 0),
    cache_write  INTEGER NOT NULL CHECK (cache_write >= 0),
    cost         INTEGER CHECK (cost >= 0),                  -- micro-dollars; NULL: no price is known
    created_at   INTEGER NOT NULL,                           -- of the first request
    updated_at   INTEGER NOT NULL,                           -- of the last one
    UNIQUE (turn, model, paid_by)                            -- one row a turn; a second one where it uses two models
) STRICT;
CREATE INDEX usage_by_time ON usage (created_at);
CREATE INDEX usage_of_agent ON usage (agent, created_at);

CREATE TABLE budgets (
    id           INTEGER PRIMARY KEY,
    agent        TEXT REFERENCES agents (id) ON DELETE CASCADE,   -- NULL: all agents together
    period       TEXT NOT NULL CHECK (period = 'day' OR period = 'month'),
    unit         TEXT NOT NULL CHECK (unit = 'money' OR unit = 'tokens'),
    amount       INTEGER NOT NULL CHECK (amount >= 0),            -- micro-dollars, or tokens
    notice       TEXT CHECK (notice = 'nearly' OR notice = 'used_up'),   -- the last one that was given
    notice_of    INTEGER,                                         -- the start of the period that it was given in
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    CHECK ((notice IS NULL) = (notice_of IS NULL))
) STRICT;
CREATE UNIQUE INDEX budgets_one ON budgets (ifnull(agent, ''), period, unit);
CREATE INDEX budgets_of_agent ON budgets (agent) WHERE agent IS NOT NULL;
