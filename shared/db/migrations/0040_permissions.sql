-- "Always allow this here": what an agent's own program may do in a chat without another question.

CREATE TABLE permissions (
    id            INTEGER PRIMARY KEY,
    permission_id TEXT NOT NULL UNIQUE,      -- 'permission_...'
    agent         TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    chat_id       INTEGER REFERENCES chats (id) ON DELETE CASCADE,      -- where; NULL: for messages without a chat
    tool          TEXT NOT NULL,
    arguments     TEXT NOT NULL CHECK (json_valid(arguments)),          -- what the card showed that it covers
    granted_by    INTEGER REFERENCES users (id) ON DELETE CASCADE,      -- its owner; NULL: the operator
    granted_name  TEXT NOT NULL,
    uses          INTEGER NOT NULL DEFAULT 0,
    used_at       INTEGER,
    created_at    INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX permissions_once ON permissions (agent, ifnull(chat_id, 0), tool, arguments);
CREATE INDEX permissions_of_chat ON permissions (chat_id) WHERE chat_id IS NOT NULL;
CREATE INDEX permissions_of_user ON permissions (granted_by) WHERE granted_by IS NOT NULL;
