-- What agents remember by a tool, line by line, and in which sessions strangers have written. Where it is not known of an
-- earlier session, it counts as one with strangers, unless it is the direct chat of somebody who was let in by name.

ALTER TABLE agents ADD COLUMN memory TEXT NOT NULL DEFAULT 'known'
    CHECK (memory = 'off' OR memory = 'apart' OR memory = 'admins' OR memory = 'known');

ALTER TABLE sessions ADD COLUMN strangers_at INTEGER;    -- when a stranger's words first came in; NULL: none did
UPDATE sessions SET strangers_at = created_at;
UPDATE sessions
   SET strangers_at = NULL
 WHERE EXISTS (SELECT 1
                 FROM chats c
                 JOIN users u ON u.sender_id = c.platform_id
                              AND u.channel IN (c.channel, substr(c.channel, 1, instr(c.channel || '.', '.') - 1))
                WHERE c.id = sessions.chat_id AND c.is_group = 0
                  AND (EXISTS (SELECT 1 FROM user_roles r
                                WHERE r.user_id = u.id AND (r.agent IS NULL OR r.agent = sessions.agent))
                       OR EXISTS (SELECT 1 FROM members m
                                   WHERE m.user_id = u.id AND m.agent = sessions.agent AND m.is_refused = 0)));

CREATE TABLE memory_lines (            -- what an agent remembers
    id             INTEGER PRIMARY KEY,
    line_id        TEXT NOT NULL UNIQUE,
    agent          TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    text           TEXT NOT NULL CHECK (length(text) >= 1 AND length(text) <= 1000),
    with_strangers INTEGER NOT NULL CHECK (with_strangers = 0 OR with_strangers = 1),   -- they had written in its session
    is_shared      INTEGER NOT NULL CHECK (is_shared = 0 OR (is_shared = 1 AND with_strangers = 0)),
    session_id     INTEGER NOT NULL,                  -- of its turn
    chat_id        INTEGER,                           -- of the session; so are the next two
    thread_id      TEXT,
    private_to     TEXT,
    turn           TEXT,                              -- NULL: an operator called the tool
    message_id     TEXT,                              -- which the turn answered
    people         TEXT NOT NULL CHECK (json_valid(people)),   -- who had written: [[channel, sender_id, sender], ...]
    created_at     INTEGER NOT NULL
) STRICT;
CREATE INDEX memory_lines_of_place ON memory_lines (agent, is_shared, ifnull(chat_id, 0));
