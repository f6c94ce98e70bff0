-- Who may talk to whom: people and what they may do, what waits for a yes, and how chats treat strangers.

-- Chats that exist go on as they were: anybody who could write still can. New ones are told how by whoever makes them.
ALTER TABLE chats ADD COLUMN sender_policy TEXT NOT NULL DEFAULT 'strict'
    CHECK (sender_policy = 'strict' OR sender_policy = 'request_approval' OR sender_policy = 'public');
UPDATE chats SET sender_policy = 'public';
ALTER TABLE chats ADD COLUMN refused_at INTEGER;     -- an owner wants no agent here, and is not asked again
ALTER TABLE chats ADD COLUMN opens_for TEXT;         -- a direct chat that the platform has not opened yet: with whom

ALTER TABLE agents ADD COLUMN turn_timeout_ms INTEGER CHECK (turn_timeout_ms >= 100);      -- NULL: as the settings say
ALTER TABLE agents ADD COLUMN batch_size INTEGER CHECK (batch_size BETWEEN 1 AND 1000);    -- NULL: as the settings say
ALTER TABLE agents ADD COLUMN retired_at INTEGER;    -- deleted, but messages name it
CREATE TRIGGER agents_folder_new BEFORE INSERT ON agents
WHEN NEW.folder GLOB '/*' OR '/' || NEW.folder || '/' GLOB '*/../*' OR NEW.folder = ''
BEGIN SELECT RAISE(ABORT, 'an agent''s folder lies below the folder of the agents'); END;
CREATE TRIGGER agents_folder_changed BEFORE UPDATE OF folder ON agents
WHEN NEW.folder GLOB '/*' OR '/' || NEW.folder || '/' GLOB '*/../*' OR NEW.folder = ''
BEGIN SELECT RAISE(ABORT, 'an agent''s folder lies below the folder of the agents'); END;

ALTER TABLE sessions ADD COLUMN closed_at INTEGER;
ALTER TABLE sessions ADD COLUMN replays INTEGER REFERENCES sessions (id);   -- whose messages it was given again
CREATE INDEX sessions_of_agent ON sessions (agent);
CREATE INDEX sessions_of_chat ON sessions (chat_id) WHERE chat_id IS NOT NULL;

CREATE TABLE users (                   -- one person or program on one platform; only those that are somebody here
    id         INTEGER PRIMARY KEY,
    channel    TEXT NOT NULL,
    sender_id  TEXT NOT NULL,          -- the platform's id; with the channel the whole identity
    name       TEXT NOT NULL DEFAULT '',   -- for people to read; proves nothing
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (channel, sender_id)
) STRICT;

CREATE TABLE user_roles (
    id         INTEGER PRIMARY KEY,
    user_id    INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    role       TEXT NOT NULL CHECK (role = 'owner' OR role = 'admin'),
    agent      TEXT REFERENCES agents (id) ON DELETE CASCADE,     -- NULL: of everything
    granted_by TEXT NOT NULL,          -- who is shown, never compared
    created_at INTEGER NOT NULL,
    CHECK (role <> 'owner' OR agent IS NULL)
) STRICT;
CREATE UNIQUE INDEX user_roles_once ON user_roles (user_id, role, ifnull(agent, ''));

CREATE TABLE members (                 -- who may talk to an agent, or was refused
    user_id    INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    agent      TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    is_refused INTEGER NOT NULL DEFAULT 0 CHECK (is_refused = 0 OR is_refused = 1),
    added_by   TEXT NOT NULL,          -- who is shown, never compared
    created_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, agent)
) STRICT, WITHOUT ROWID;
CREATE INDEX members_of_agent ON members (agent);

CREATE TABLE user_dms (                -- the chat in which somebody is written to directly
    user_id     INTEGER PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
    chat_id     INTEGER NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    resolved_at INTEGER NOT NULL
) STRICT;
CREATE INDEX user_dms_of_chat ON user_dms (chat_id);

CREATE TABLE destinations (            -- where an agent may send, and what it calls that; both at once
    agent        TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    name         TEXT NOT NULL CHECK (name GLOB '[a-z0-9]*' AND name NOT GLOB '*[^a-z0-9_-]*' AND length(name) <= 64),
    target_chat  INTEGER REFERENCES chats (id) ON DELETE CASCADE,
    target_agent TEXT REFERENCES agents (id) ON DELETE CASCADE,
    created_at   INTEGER NOT NULL,
    PRIMARY KEY (agent, name),
    CHECK ((target_chat IS NULL) <> (target_agent IS NULL)),
    CHECK (target_agent IS NULL OR target_agent <> agent)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX destinations_chat ON destinations (agent, target_chat) WHERE target_chat IS NOT NULL;
CREATE UNIQUE INDEX destinations_agent ON destinations (agent, target_agent) WHERE target_agent IS NOT NULL;
CREATE INDEX destinations_to_chat ON destinations (target_chat) WHERE target_chat IS NOT NULL;
CREATE INDEX destinations_to_agent ON destinations (target_agent) WHERE target_agent IS NOT NULL;

-- A wiring and its destination come and go together, whoever makes or deletes the wiring.
CREATE TRIGGER wirings_destination_come AFTER INSERT ON wirings
BEGIN
    INSERT INTO destinations (agent, name, target_chat, created_at)
    VALUES (NEW.agent, 'chat-' || NEW.chat_id, NEW.chat_id, NEW.created_at)
    ON CONFLICT (agent, target_chat) WHERE target_chat IS NOT NULL DO NOTHING;
END;
CREATE TRIGGER wirings_destination_gone AFTER DELETE ON wirings
BEGIN DELETE FROM destinations WHERE agent = OLD.agent AND target_chat = OLD.chat_id; END;

-- Every wiring that exists gets its destination.
INSERT INTO destinations (agent, name, target_chat, created_at)
SELECT w.agent, 'chat-' || w.chat_id, w.chat_id, w.created_at FROM wirings w;

CREATE TABLE sticky_threads (          -- threads in which a wiring engages without being mentioned again
    wiring_id  INTEGER NOT NULL REFERENCES wirings (id) ON DELETE CASCADE,
    thread_id  TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (wiring_id, thread_id)
) STRICT, WITHOUT ROWID;

ALTER TABLE approvals ADD COLUMN subject TEXT;       -- what it is about, in a word: no second one while it is pending
ALTER TABLE approvals ADD COLUMN chat_id INTEGER REFERENCES chats (id);
ALTER TABLE approvals ADD COLUMN user_id INTEGER REFERENCES users (id);
ALTER TABLE approvals ADD COLUMN session_id INTEGER REFERENCES sessions (id);      -- who asked, and is told
ALTER TABLE approvals ADD COLUMN title TEXT NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN options TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(options));
ALTER TABLE approvals ADD COLUMN choice INTEGER;     -- which of the options was taken
ALTER TABLE approvals ADD COLUMN approver INTEGER REFERENCES users (id);           -- who was shown the card
ALTER TABLE approvals ADD COLUMN card INTEGER;       -- responses.id of the card; that row may be pruned
CREATE UNIQUE INDEX approvals_once ON approvals (kind, subject) WHERE status = 'pending' AND subject IS NOT NULL;
CREATE INDEX approvals_of_chat ON approvals (chat_id) WHERE status = 'pending' AND chat_id IS NOT NULL;
CREATE INDEX approvals_ended ON approvals (updated_at) WHERE status <> 'pending';

CREATE TABLE held (                    -- events that wait for an approval; gone when it is decided
    id          INTEGER PRIMARY KEY,
    approval_id INTEGER NOT NULL REFERENCES approvals (id) ON DELETE CASCADE,
    channel     TEXT NOT NULL,
    event_key   TEXT NOT NULL,
    event       TEXT NOT NULL CHECK (json_valid(event)),
    created_at  INTEGER NOT NULL,
    UNIQUE (approval_id, event_key)
) STRICT;

CREATE TABLE pairings (                -- one-time codes
    id          INTEGER PRIMARY KEY,
    pairing_id  TEXT NOT NULL UNIQUE,  -- 'pairing_...'
    code_hash   TEXT NOT NULL UNIQUE,  -- the code itself is nowhere
    grants      TEXT NOT NULL
                CHECK (grants = 'owner' OR grants = 'admin' OR grants = 'member' OR grants = 'chat'),
    agent       TEXT REFERENCES agents (id) ON DELETE CASCADE,     -- NULL: of everything
    status      TEXT NOT NULL DEFAULT 'open'
                CHECK (status = 'open' OR status = 'used' OR status = 'expired' OR status = 'revoked'),
    used_by     INTEGER REFERENCES users (id) ON DELETE SET NULL,
    expires_at  INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    CHECK (grants <> 'owner' OR agent IS NULL),
    CHECK (agent IS NOT NULL OR grants = 'owner' OR grants = 'admin')
) STRICT;
CREATE INDEX pairings_open ON pairings (expires_at) WHERE status = 'open';

CREATE TABLE rates (                   -- how much somebody has used of what is allowed; one number each
    key     TEXT PRIMARY KEY,
    full_at INTEGER NOT NULL,          -- when all of it is there again, ms UTC
    told_at INTEGER                    -- when it was last said that it is used up
) STRICT, WITHOUT ROWID;

CREATE INDEX dropped_by_reason ON dropped (reason, id);
