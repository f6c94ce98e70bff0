-- Alerts: each thing that is not well is told once to each route, and once more when it is over.

CREATE TABLE alert_routes (            -- the places that an operator chose
    name        TEXT PRIMARY KEY,
    chat_id     INTEGER NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    kinds       TEXT NOT NULL CHECK (json_type(kinds) = 'array'),      -- what it is told; empty: everything
    urgent      TEXT NOT NULL CHECK (json_type(urgent) = 'array'),     -- of these, what waits for nothing
    quiet_hours TEXT,                  -- such as 22:00-07:00
    timezone    TEXT,                  -- of its hours; NULL: that of the settings
    digest_ms   INTEGER CHECK (digest_ms > 0),
    digest_at   INTEGER,               -- of its last digest
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX alert_routes_of_chat ON alert_routes (chat_id);

CREATE TABLE alerts (                  -- things that are not well, or were not
    id         INTEGER PRIMARY KEY,
    key        TEXT NOT NULL,          -- the same while the cause is
    kind       TEXT NOT NULL,
    what       TEXT NOT NULL,          -- sentences, without any text of people
    why        TEXT NOT NULL,
    remedy     TEXT NOT NULL,
    page       TEXT NOT NULL,          -- of the operator's page; page_id: what it shows there
    page_id    TEXT,
    channel    TEXT,                   -- that it is about
    since      INTEGER NOT NULL,       -- when the thing began
    noticed_at INTEGER NOT NULL,
    gone_at    INTEGER,                -- the first look that did not find it; the next one that does not ends it
    over_at    INTEGER
) STRICT;
CREATE UNIQUE INDEX alerts_standing ON alerts (key) WHERE over_at IS NULL;
CREATE INDEX alerts_over ON alerts (over_at) WHERE over_at IS NOT NULL;

CREATE TABLE alert_tellings (
    alert_id     INTEGER NOT NULL REFERENCES alerts (id) ON DELETE CASCADE,
    route        TEXT NOT NULL REFERENCES alert_routes (name) ON DELETE CASCADE,
    said_by      TEXT NOT NULL,        -- the route that said it: another one while the route's own channel can't send
    told_at      INTEGER NOT NULL,
    told_by      INTEGER NOT NULL,     -- responses.id
    over_told_at INTEGER,
    over_told_by INTEGER,
    PRIMARY KEY (alert_id, route)
) STRICT, WITHOUT ROWID;
CREATE INDEX alert_tellings_of_route ON alert_tellings (route);
CREATE INDEX alert_tellings_said ON alert_tellings (said_by, told_at);
CREATE INDEX alert_tellings_ended ON alert_tellings (said_by, over_told_at) WHERE over_told_at IS NOT NULL;
