-- What a turn did with its tools, so that a repeated call does nothing twice; and where a question stands.

CREATE TABLE tool_calls (              -- calls that did something, in a turn
    turn       TEXT NOT NULL,          -- the token of the claim
    key        TEXT NOT NULL,          -- of the call: a hash of the tool, its arguments and the caller's own id
    tool       TEXT NOT NULL,
    answer     TEXT NOT NULL,          -- what the agent was told
    created_at INTEGER NOT NULL,
    PRIMARY KEY (turn, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX tool_calls_by_age ON tool_calls (created_at);

ALTER TABLE questions ADD COLUMN chat_id INTEGER;      -- where it was asked; with its thread
ALTER TABLE questions ADD COLUMN thread_id TEXT;
ALTER TABLE questions ADD COLUMN private_to TEXT;      -- only this person sees it, by the platform's id
ALTER TABLE questions ADD COLUMN card INTEGER;         -- responses.id of what shows it; that row may be pruned
ALTER TABLE questions ADD COLUMN click TEXT;           -- channel and key of the press that answered it
ALTER TABLE questions ADD COLUMN answered_in INTEGER;  -- messages.id of the text that answered it; it may be pruned
CREATE INDEX questions_of_session ON questions (session_id) WHERE status = 'open';
CREATE INDEX questions_answered_in ON questions (answered_in) WHERE answered_in IS NOT NULL;
