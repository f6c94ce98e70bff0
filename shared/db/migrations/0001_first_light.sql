-- The thin path: who may be talked to, what came in, what goes out, what happened.
-- All instants are INTEGER milliseconds UTC. Ids that people see are nanoid with a prefix.
-- Checks say a = 'x' OR a = 'y', not a IN ('x', 'y'): for a list, SQLite fills a table at every insert, which takes as
-- long as the insert itself.

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,            -- 'epoch' (new after every restore), 'heartbeat_at', ...
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE agents (
    id           TEXT PRIMARY KEY CHECK (id GLOB '[a-z0-9]*' AND id NOT GLOB '*[^a-z0-9_-]*' AND length(id) <= 64),
    name         TEXT NOT NULL,
    provider     TEXT NOT NULL DEFAULT 'echo',
    model        TEXT,
    folder       TEXT,                 -- working directory, relative to the agents' root
    instructions TEXT NOT NULL DEFAULT '',
    config       TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(config)),   -- what only this provider reads
    concurrency  INTEGER NOT NULL DEFAULT 1 CHECK (concurrency BETWEEN 1 AND 1000),
    timezone     TEXT NOT NULL DEFAULT 'UTC',
    is_default   INTEGER NOT NULL DEFAULT 0 CHECK (is_default = 0 OR is_default = 1),
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX agents_one_default ON agents (is_default) WHERE is_default = 1;

CREATE TABLE chats (                   -- one conversation place on one platform
    id          INTEGER PRIMARY KEY,
    channel     TEXT NOT NULL,
    platform_id TEXT NOT NULL,
    name        TEXT,
    is_group    INTEGER NOT NULL DEFAULT 0 CHECK (is_group = 0 OR is_group = 1),
    status      TEXT NOT NULL DEFAULT 'active' CHECK (status = 'active' OR status = 'inactive'),
    not_before  INTEGER,               -- the platform asked for silence until then
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    UNIQUE (channel, platform_id)
) STRICT;

CREATE TABLE wirings (                 -- which agent answers in which chat, and when
    id                     INTEGER PRIMARY KEY,
    chat_id                INTEGER NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    agent                  TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    engage_mode            TEXT NOT NULL DEFAULT 'mention'
                            CHECK (engage_mode = 'pattern' OR engage_mode = 'mention'
                                   OR engage_mode = 'mention-sticky'),
    engage_pattern         TEXT CHECK (engage_mode <> 'pattern' OR engage_pattern IS NOT NULL),
    sender_scope           TEXT NOT NULL DEFAULT 'all' CHECK (sender_scope = 'all' OR sender_scope = 'known'),
    ignored_message_policy TEXT NOT NULL DEFAULT 'drop'
                            CHECK (ignored_message_policy = 'drop' OR ignored_message_policy = 'accumulate'),
    session_mode           TEXT NOT NULL DEFAULT 'shared'
                            CHECK (session_mode = 'shared' OR session_mode = 'per-thread'
                                   OR session_mode = 'agent-shared'),
    priority               INTEGER NOT NULL DEFAULT 0,
    created_at             INTEGER NOT NULL,
    UNIQUE (chat_id, agent)
) STRICT;

CREATE TABLE sessions (                -- one agent's continuing context in one chat or thread
    id           INTEGER PRIMARY KEY,
    session_id   TEXT NOT NULL UNIQUE, -- 'session_' and 8 of [0-9a-z]
    agent        TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    chat_id      INTEGER REFERENCES chats (id) ON DELETE CASCADE,        -- NULL: agent-shared
    thread_id    TEXT,
    status       TEXT NOT NULL DEFAULT 'active' CHECK (status = 'active' OR status = 'closed'),
    continuation TEXT,                 -- the provider's own token for going on
    created_at   INTEGER NOT NULL,
    last_active  INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX sessions_one_active ON sessions (agent, ifnull(chat_id, 0), ifnull(thread_id, ''))
    WHERE status = 'active';

CREATE TABLE messages (                -- in
    id                  INTEGER PRIMARY KEY,   -- no AUTOINCREMENT (slower): prune never deletes the newest row
    message_id          TEXT NOT NULL UNIQUE,
    kind                TEXT NOT NULL DEFAULT 'chat'
                        CHECK (kind = 'chat' OR kind = 'chat-sdk' OR kind = 'task' OR kind = 'webhook'
                               OR kind = 'system'),
    channel             TEXT NOT NULL,
    chat_id             INTEGER REFERENCES chats (id),
    platform_id         TEXT,
    thread_id           TEXT,
    platform_message_id TEXT,
    event_key           TEXT,                  -- the platform's own id of the event; NULL where there is none
    sender              TEXT NOT NULL,
    sender_id           TEXT,
    message             TEXT NOT NULL,
    content             TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(content)),
    files               TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(files)),
    agent               TEXT NOT NULL,
    from_agent          TEXT,
    session_id          INTEGER NOT NULL REFERENCES sessions (id),
    conversation_id     TEXT,
    msg_type            TEXT NOT NULL DEFAULT 'message'
                        CHECK (msg_type = 'message' OR msg_type = 'task' OR msg_type = 'status' OR msg_type = 'nudge'),
    urgency             TEXT NOT NULL DEFAULT 'normal' CHECK (urgency = 'normal' OR urgency = 'urgent'),
    reply_to            INTEGER,               -- messages.id; that row may be pruned
    thread_root         INTEGER,               -- messages.id; that row may be pruned
    trigger             INTEGER NOT NULL DEFAULT 1
                        CHECK (trigger = 0 OR trigger = 1),   -- 0: context only, asks for no turn
    status              TEXT NOT NULL DEFAULT 'pending'
                        CHECK (status = 'pending' OR status = 'processing' OR status = 'completed'
                               OR status = 'dead' OR status = 'paused' OR status = 'cancelled'),
    retry_count         INTEGER NOT NULL DEFAULT 0,
    last_error          TEXT,
    claimed_by          TEXT,                  -- the token of the turn that holds it
    lease               INTEGER,               -- until when
    process_after       INTEGER,               -- NULL: at once
    recurrence          TEXT,                  -- cron expression; handed on to the next occurrence
    timezone            TEXT,
    misfire             TEXT NOT NULL DEFAULT 'coalesce' CHECK (misfire = 'coalesce' OR misfire = 'catch_up'),
    scheduled_at        INTEGER,               -- the instant on the grid this occurrence stands for
    series_id           TEXT,
    created_at          INTEGER NOT NULL,
    updated_at          INTEGER NOT NULL,
    CHECK ((status = 'processing') = (claimed_by IS NOT NULL AND lease IS NOT NULL)),
    CHECK (recurrence IS NULL OR (series_id IS NOT NULL AND timezone IS NOT NULL AND scheduled_at IS NOT NULL))
) STRICT;
-- P2: one row per platform event and agent.
CREATE UNIQUE INDEX messages_event ON messages (channel, event_key, agent) WHERE event_key IS NOT NULL;
-- What is open in a session: claim, order, rescue. OR and not IN, so that either term alone lets the planner use it.
CREATE INDEX messages_open ON messages (trigger, session_id, status, id)
    WHERE status = 'pending' OR status = 'processing';
CREATE INDEX messages_delayed ON messages (process_after) WHERE status = 'pending' AND process_after IS NOT NULL;
CREATE INDEX messages_dead ON messages (updated_at) WHERE status = 'dead';
CREATE INDEX messages_resting ON messages (id) WHERE status = 'paused' OR status = 'cancelled';
-- One live occurrence per series, and what waits for its successor.
CREATE UNIQUE INDEX messages_one_live ON messages (series_id)
    WHERE recurrence IS NOT NULL AND status IN ('pending', 'processing', 'paused');
CREATE INDEX messages_recurring ON messages (id) WHERE recurrence IS NOT NULL AND status IN ('completed', 'dead');

CREATE TABLE responses (               -- out
    id                  INTEGER PRIMARY KEY,
    message_id          TEXT NOT NULL,         -- of the message it answers; 'proactive_...' where there is none
    in_reply_to         INTEGER,               -- messages.id; that row may be pruned
    channel             TEXT NOT NULL,
    chat_id             INTEGER REFERENCES chats (id),
    platform_id         TEXT,
    thread_id           TEXT,
    session_id          INTEGER REFERENCES sessions (id),
    sender              TEXT NOT NULL,         -- who asked
    sender_id           TEXT,
    message             TEXT NOT NULL,
    original_message    TEXT NOT NULL DEFAULT '',
    agent               TEXT,
    kind                TEXT NOT NULL DEFAULT 'chat'
                        CHECK (kind = 'chat' OR kind = 'chat-sdk' OR kind = 'task' OR kind = 'webhook'
                               OR kind = 'system'),
    content             TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(content)),
    files               TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(files)),
    metadata            TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(metadata)),
    status              TEXT NOT NULL DEFAULT 'pending'
                        CHECK (status = 'pending' OR status = 'delivering' OR status = 'acked' OR status = 'dead'),
    retry_count         INTEGER NOT NULL DEFAULT 0,
    last_error          TEXT,
    claimed_by          TEXT,
    lease               INTEGER,
    deliver_after       INTEGER,
    recurrence          TEXT,
    timezone            TEXT,
    misfire             TEXT NOT NULL DEFAULT 'coalesce' CHECK (misfire = 'coalesce' OR misfire = 'catch_up'),
    scheduled_at        INTEGER,
    series_id           TEXT,
    parts               TEXT NOT NULL DEFAULT '[]'
                        CHECK (json_valid(parts)),   -- platform ids of the parts already sent
    part_started        INTEGER,               -- the part whose sending began and has no known outcome
    platform_message_id TEXT,                  -- of the first part
    created_at          INTEGER NOT NULL,
    acked_at            INTEGER,
    CHECK ((status = 'delivering') = (claimed_by IS NOT NULL AND lease IS NOT NULL)),
    CHECK ((status = 'acked') = (acked_at IS NOT NULL)),
    CHECK (recurrence IS NULL OR (series_id IS NOT NULL AND timezone IS NOT NULL AND scheduled_at IS NOT NULL))
) STRICT;
CREATE INDEX responses_open ON responses (channel, chat_id, status, id)
    WHERE status = 'pending' OR status = 'delivering';
CREATE INDEX responses_of_message ON responses (message_id);
CREATE INDEX responses_dead ON responses (id) WHERE status = 'dead';
CREATE UNIQUE INDEX responses_one_live ON responses (series_id)
    WHERE recurrence IS NOT NULL AND status IN ('pending', 'delivering');
CREATE INDEX responses_recurring ON responses (id) WHERE recurrence IS NOT NULL AND status IN ('acked', 'dead');

CREATE TABLE agent_messages (          -- every agent's history; append-only
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    agent_id   TEXT NOT NULL,
    role       TEXT NOT NULL CHECK (role = 'user' OR role = 'assistant'),
    channel    TEXT NOT NULL,
    sender     TEXT NOT NULL,
    message_id TEXT NOT NULL,
    content    TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX agent_messages_of_agent ON agent_messages (agent_id, id);

CREATE TABLE events (                  -- every change of state; append-only
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    type        TEXT NOT NULL,         -- 'message_received', 'chain_step_done', 'response_acked', ...
    message_id  TEXT,
    response_id INTEGER,
    agent       TEXT,
    channel     TEXT,
    session_id  INTEGER,
    data        TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(data)),
    created_at  INTEGER NOT NULL
) STRICT;

CREATE TABLE dropped (                 -- what was refused, and why; never a person's text
    id          INTEGER PRIMARY KEY,
    channel     TEXT NOT NULL,
    platform_id TEXT,
    sender_id   TEXT,
    event_key   TEXT,
    reason      TEXT NOT NULL,         -- 'payload', 'not_wired', 'unsupported', ...
    detail      TEXT NOT NULL DEFAULT '',
    created_at  INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX dropped_event ON dropped (channel, event_key) WHERE event_key IS NOT NULL;
CREATE INDEX dropped_recent ON dropped (created_at);
