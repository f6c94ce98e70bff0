-- What platforms ask of us holds over restarts and for all processes: the waits that they asked for, their outages, and how
-- many of our calls they refused lately.

CREATE TABLE call_holds (              -- calls with this scope wait until then; a row whose instant has passed says nothing
    channel    TEXT NOT NULL,          -- the account; empty for 'address': all accounts of the platform that is the key
    scope      TEXT NOT NULL
               CHECK (scope = 'method' OR scope = 'chat' OR scope = 'bot' OR scope = 'application' OR scope = 'bucket'
                      OR scope = 'address'),
    key        TEXT NOT NULL,          -- which of them, empty where there is one
    not_before INTEGER NOT NULL,
    held_at    INTEGER NOT NULL,       -- when the platform last asked for a wait
    reason     TEXT NOT NULL,          -- for people
    PRIMARY KEY (channel, scope, key),
    CHECK ((channel = '') = (scope = 'address'))
) STRICT, WITHOUT ROWID;

CREATE TABLE call_buckets (            -- which bucket counts the calls of a method, learnt from the platform's answers
    channel TEXT NOT NULL,
    method  TEXT NOT NULL,
    bucket  TEXT NOT NULL,
    PRIMARY KEY (channel, method)
) STRICT, WITHOUT ROWID;

CREATE TABLE refused_calls (           -- calls that a platform counts against this machine's address, by the minute
    platform TEXT NOT NULL,
    minute   INTEGER NOT NULL,         -- since 1970
    count    INTEGER NOT NULL CHECK (count > 0),
    PRIMARY KEY (platform, minute)
) STRICT, WITHOUT ROWID;

CREATE TABLE channel_outages (         -- the platform can't be reached, or answers that it can't work; the last outage stays
    channel  TEXT PRIMARY KEY,
    began_at INTEGER NOT NULL,
    code     TEXT NOT NULL CHECK (code = 'unreachable' OR code = 'server_error' OR code = 'no_answer'),
    reason   TEXT NOT NULL,            -- for people
    probe_at INTEGER,                  -- when one call asks again; NULL: it is over
    ended_at INTEGER,
    CHECK ((probe_at IS NULL) = (ended_at IS NOT NULL))
) STRICT, WITHOUT ROWID;
