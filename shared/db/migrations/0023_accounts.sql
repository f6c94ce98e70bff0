-- Several bots or apps of one platform. `channel` columns hold the account's name; the first account of a platform is
-- called like it, and a further one has a word of its own behind a dot. Tokens are never in a row.
--
-- The first account of a platform needs no row: its settings alone make it work. A row says more about it, such as the
-- agent whose bot it is.
CREATE TABLE accounts (
    name       TEXT PRIMARY KEY
               CHECK (name = platform OR (name GLOB platform || '.[a-z]*' AND length(name) <= 40
                                          AND substr(name, length(platform) + 2) NOT GLOB '*[^a-z0-9_]*')),
    platform   TEXT NOT NULL CHECK (platform GLOB '[a-z]*' AND platform NOT GLOB '*[^a-z0-9]*'),
    status     TEXT NOT NULL DEFAULT 'active'
               CHECK (status = 'active'          -- takes webhooks and sends
                      OR status = 'wanted'       -- a person was asked to make its bot
                      OR status = 'given'),      -- the bot is there; its token and its webhook are still to be set
    bot_id     TEXT,                   -- the platform's id of the bot or app; NULL: not known yet
    username   TEXT,                   -- for people to read
    agent      TEXT REFERENCES agents (id) ON DELETE SET NULL,       -- whose bot it is; NULL: of all agents
    manager    TEXT,                   -- the account whose bot made this one; NULL: an operator gave it
    owner_id   TEXT,                   -- the platform's id of the person who makes or made it, with a manager
    failure    TEXT,                   -- why the last attempt to set it up failed; for people
    attempts   INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    retry_at   INTEGER,                -- when the next attempt is due, ms UTC
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    CHECK (manager IS NOT NULL OR status = 'active'),
    CHECK (status <> 'given' OR bot_id IS NOT NULL)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX accounts_bot ON accounts (platform, bot_id) WHERE bot_id IS NOT NULL;
CREATE INDEX accounts_of_agent ON accounts (agent) WHERE agent IS NOT NULL;

-- The accounts that this database served until now.
INSERT INTO accounts (name, platform, created_at, updated_at)
SELECT value, value, unixepoch() * 1000, unixepoch() * 1000
  FROM json_each('["discord", "telegram"]')
 WHERE EXISTS (SELECT 1 FROM chats WHERE channel = value);
