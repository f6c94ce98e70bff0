-- The queue: one INSERT a message, and everything that is done to messages, series and agents' mail.
--
-- messages, events and agent_messages are built anew, because SQLite can't take a UNIQUE or an AUTOINCREMENT away:
--   * A message's visible id is computed from its row id (shared/ids.py): a stored random one needed an index of its
--     own, which cost a third of an insert and, at ten million rows, a page from the disk for every message.
--     An id that the caller gave stands in given_id; the ids of earlier releases stand there too.
--   * The events of arrival are written by dispatch, in batches, and no more by whoever stores the message.
--   * AUTOINCREMENT keeps its counter in a table of its own, a page more in every transaction. What it is for holds
--     without it: the newest row of these tables is never deleted, so their ids only ever grow.

CREATE TABLE messages_2 (
    id                  INTEGER PRIMARY KEY,   -- prune never deletes the newest row, so no id comes twice
    given_id            TEXT,                  -- the caller's own id of the message; unique
    id_prefix           TEXT NOT NULL,         -- where it came from: 'telegram', 'api', 'internal', 'task', ...
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
    from_agent          TEXT,                  -- the agent that wrote it; NULL: a person or a program
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
    message_id          TEXT GENERATED ALWAYS AS (
                        ifnull(given_id, format('%s_%08x', id_prefix, (id * 1640531527 + 1013904223) & 4294967295))) VIRTUAL,
    CHECK ((status = 'processing') = (claimed_by IS NOT NULL AND lease IS NOT NULL)),
    CHECK (recurrence IS NULL OR (series_id IS NOT NULL AND timezone IS NOT NULL AND scheduled_at IS NOT NULL))
) STRICT;
INSERT INTO messages_2 (id, given_id, id_prefix, kind, channel, chat_id, platform_id, thread_id, platform_message_id,
                        event_key, sender, sender_id, message, content, files, agent, from_agent, session_id,
                        conversation_id, msg_type, urgency, reply_to, thread_root, trigger, status, retry_count,
                        last_error, claimed_by, lease, process_after, recurrence, timezone, misfire, scheduled_at,
                        series_id, created_at, updated_at)
SELECT id, message_id, channel, kind, channel, chat_id, platform_id, thread_id, platform_message_id,
       event_key, sender, sender_id, message, content, files, agent, from_agent, session_id,
       conversation_id, msg_type, urgency, reply_to, thread_root, trigger, status, retry_count,
       last_error, claimed_by, lease, process_after, recurrence, timezone, misfire, scheduled_at,
       series_id, created_at, updated_at
  FROM messages;
DROP TABLE messages;
ALTER TABLE messages_2 RENAME TO messages;

CREATE UNIQUE INDEX messages_given ON messages (given_id) WHERE given_id IS NOT NULL;
-- One row per platform event and agent.
CREATE UNIQUE INDEX messages_event ON messages (channel, event_key, agent) WHERE event_key IS NOT NULL;
-- What asks for a turn, by agent and session. DESC: what runs stands before what waits, so that one step into a
-- session's part of the index tells whether it is busy and, if not, which message is its oldest; and so that claiming
-- moves an entry within a page. OR and not IN, so that either term alone lets the planner use it.
CREATE INDEX messages_open ON messages (agent, session_id, status DESC, id)
    WHERE trigger = 1 AND (status = 'pending' OR status = 'processing');
CREATE INDEX messages_context ON messages (session_id, status, id)
    WHERE trigger = 0 AND (status = 'pending' OR status = 'processing');
CREATE INDEX messages_urgent ON messages (session_id, id) WHERE urgency = 'urgent' AND status = 'pending';
CREATE INDEX messages_delayed ON messages (process_after) WHERE process_after IS NOT NULL AND status = 'pending';
CREATE INDEX messages_dead ON messages (id) WHERE status = 'dead';
CREATE INDEX messages_resting ON messages (id) WHERE status = 'paused' OR status = 'cancelled';
-- One live occurrence per series, what waits for its successor, and what is planned.
CREATE UNIQUE INDEX messages_one_live ON messages (series_id)
    WHERE recurrence IS NOT NULL AND (status = 'pending' OR status = 'processing' OR status = 'paused');
CREATE INDEX messages_recurring ON messages (id)
    WHERE recurrence IS NOT NULL AND (status = 'completed' OR status = 'dead' OR status = 'cancelled');
CREATE INDEX messages_planned ON messages (series_id, id)
    WHERE series_id IS NOT NULL AND (status = 'pending' OR status = 'processing' OR status = 'paused');
CREATE INDEX messages_thread ON messages (thread_root) WHERE thread_root IS NOT NULL;
-- Agents' mail that was read: the newest thousand stay.
CREATE INDEX messages_read_mail ON messages (updated_at) WHERE from_agent IS NOT NULL AND status = 'completed';

-- By the row that is answered, whose ids grow: ids that are scattered cost a page of their own for every response.
DROP INDEX responses_of_message;
CREATE INDEX responses_of_message ON responses (in_reply_to) WHERE in_reply_to IS NOT NULL;
CREATE INDEX responses_delayed ON responses (channel, deliver_after)
    WHERE deliver_after IS NOT NULL AND status = 'pending';
DROP INDEX responses_one_live;
CREATE UNIQUE INDEX responses_one_live ON responses (series_id)
    WHERE recurrence IS NOT NULL AND (status = 'pending' OR status = 'delivering');
DROP INDEX responses_recurring;
CREATE INDEX responses_recurring ON responses (id)
    WHERE recurrence IS NOT NULL AND (status = 'acked' OR status = 'dead');
CREATE INDEX responses_planned ON responses (series_id, id)
    WHERE series_id IS NOT NULL AND (status = 'pending' OR status = 'delivering');

CREATE TABLE agent_messages_2 (        -- every agent's history; append-only, so no id comes twice
    id         INTEGER PRIMARY KEY,
    agent_id   TEXT NOT NULL,
    role       TEXT NOT NULL CHECK (role = 'user' OR role = 'assistant'),
    channel    TEXT NOT NULL,
    sender     TEXT NOT NULL,
    message_id TEXT NOT NULL,
    content    TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
INSERT INTO agent_messages_2 SELECT id, agent_id, role, channel, sender, message_id, content, created_at
  FROM agent_messages;
DROP TABLE agent_messages;
ALTER TABLE agent_messages_2 RENAME TO agent_messages;
CREATE INDEX agent_messages_of_agent ON agent_messages (agent_id, id);

CREATE TABLE events_2 (                -- every change of state; append-only, but for what retention takes from the old end
    id          INTEGER PRIMARY KEY,
    type        TEXT NOT NULL,         -- 'message_received', 'chain_step_done', 'response_acked', ...
    message_id  TEXT,
    response_id INTEGER,
    agent       TEXT,
    channel     TEXT,
    session_id  INTEGER,
    data        TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(data)),
    created_at  INTEGER NOT NULL
) STRICT;
INSERT INTO events_2 SELECT id, type, message_id, response_id, agent, channel, session_id, data, created_at FROM events;
DROP TABLE events;
ALTER TABLE events_2 RENAME TO events;

-- A message's own history is short and the rest of it stands on its rows: only what went wrong or was done by hand is
-- indexed.
CREATE INDEX events_of_note ON events (message_id)
    WHERE message_id IS NOT NULL AND type <> 'message_received' AND type <> 'chain_step_start'
      AND type <> 'chain_step_done' AND type <> 'response_ready' AND type <> 'response_acked';

CREATE TABLE schedule_runs (           -- each occurrence of a series: when it was due, and when it was begun
    id         INTEGER PRIMARY KEY,
    series_id  TEXT NOT NULL,
    message_id TEXT NOT NULL,
    due_at     INTEGER NOT NULL,
    started_at INTEGER NOT NULL
) STRICT;
CREATE INDEX schedule_runs_of_series ON schedule_runs (series_id, id);

CREATE TABLE teams (
    id         TEXT PRIMARY KEY CHECK (id GLOB '[a-z0-9]*' AND id NOT GLOB '*[^a-z0-9_-]*' AND length(id) <= 64),
    name       TEXT NOT NULL,
    leader     TEXT NOT NULL REFERENCES agents (id),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

CREATE TABLE team_members (
    team_id TEXT NOT NULL REFERENCES teams (id) ON DELETE CASCADE,
    agent   TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    place   INTEGER NOT NULL,          -- the order in which they were named
    PRIMARY KEY (team_id, agent)
) STRICT, WITHOUT ROWID;
CREATE INDEX team_members_of_agent ON team_members (agent);

CREATE TABLE chat_messages (           -- the teams' rooms; append-only
    id         INTEGER PRIMARY KEY,
    team_id    TEXT NOT NULL,
    from_agent TEXT NOT NULL,          -- 'user' where a person wrote
    message    TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX chat_messages_of_team ON chat_messages (team_id, id);

CREATE TABLE conversations (           -- between agents; closed when nobody has written for a while
    id          TEXT PRIMARY KEY,      -- 'conversation_...'
    status      TEXT NOT NULL DEFAULT 'open' CHECK (status = 'open' OR status = 'closed'),
    created_at  INTEGER NOT NULL,
    last_active INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX conversations_open ON conversations (last_active) WHERE status = 'open';

CREATE TABLE questions (               -- an agent waits for a person's answer
    id          INTEGER PRIMARY KEY,
    question_id TEXT NOT NULL UNIQUE,  -- 'question_...'
    session_id  INTEGER NOT NULL REFERENCES sessions (id),
    message_id  TEXT,                  -- the message whose turn asks
    question    TEXT NOT NULL,
    options     TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(options)),
    status      TEXT NOT NULL DEFAULT 'open'
                CHECK (status = 'open' OR status = 'answered' OR status = 'expired' OR status = 'cancelled'),
    answer      TEXT,
    answered_by TEXT,                  -- 'channel:sender_id' is shown, never compared
    expires_at  INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    CHECK ((status = 'answered') = (answer IS NOT NULL))
) STRICT;
CREATE INDEX questions_open ON questions (expires_at) WHERE status = 'open';

CREATE TABLE approvals (               -- something waits for somebody's yes or no
    id          INTEGER PRIMARY KEY,
    approval_id TEXT NOT NULL UNIQUE,  -- 'approval_...'
    kind        TEXT NOT NULL,         -- 'sender', 'chat', 'action', 'tool', ...
    agent       TEXT,
    payload     TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(payload)),
    status      TEXT NOT NULL DEFAULT 'pending'
                CHECK (status = 'pending' OR status = 'approved' OR status = 'refused' OR status = 'expired'),
    decided_by  TEXT,
    expires_at  INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX approvals_pending ON approvals (expires_at) WHERE status = 'pending';

-- The newest message whose arrival stands in events.
INSERT INTO meta (key, value) SELECT 'announced', ifnull(max(id), 0) FROM messages;
