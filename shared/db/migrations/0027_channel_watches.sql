-- A channel that receives nothing looks like a quiet one. So what the platform has registered for our bot is looked at every
-- few minutes, and the row says what was found.

CREATE TABLE channel_watches (
    channel   TEXT PRIMARY KEY,
    looked_at INTEGER NOT NULL,        -- the last look that got an answer
    url       TEXT,                    -- registered at that look, without a secret; NULL: none
    known_url TEXT,                    -- under which events came in: the one that is ours
    backlog   INTEGER,                 -- events that waited at the platform at that look; NULL: it does not tell
    state     TEXT NOT NULL CHECK (state = 'well' OR state = 'deaf'),
    code      TEXT CHECK (code = 'not_registered' OR code = 'elsewhere' OR code = 'failing' OR code = 'backlog'
                          OR code = 'kinds_missing'),
    reason    TEXT,                    -- for people
    since     INTEGER NOT NULL,        -- when it came to this state
    CHECK ((state = 'deaf') = (code IS NOT NULL)),
    CHECK ((code IS NULL) = (reason IS NULL))
) STRICT, WITHOUT ROWID;

-- A send without an answer may have arrived. Where a platform shows what it has, that decides before anything is sent again.

CREATE TABLE unknown_sends (
    response_id INTEGER NOT NULL,
    part        INTEGER NOT NULL,      -- its number in the response, from 0
    tried_from  INTEGER NOT NULL,      -- the send began at this instant or later
    evidence    TEXT CHECK (evidence = 'arrived' OR evidence = 'absent' OR evidence = 'repeatable' OR evidence = 'none'),
    message_id  TEXT,                  -- the platform's id of what arrived
    settled_at  INTEGER,
    PRIMARY KEY (response_id, part),
    CHECK ((evidence IS NULL) = (settled_at IS NULL)),
    CHECK ((message_id IS NOT NULL) = (evidence IS NOT NULL AND evidence = 'arrived'))
) STRICT, WITHOUT ROWID;
