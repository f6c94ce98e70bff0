-- The line that says what an agent does while it works, in chats of agents that want it.

ALTER TABLE agents ADD COLUMN progress INTEGER NOT NULL DEFAULT 0 CHECK (progress = 0 OR progress = 1);

CREATE TABLE progress_lines (
    turn       TEXT PRIMARY KEY,       -- messages.claimed_by
    agent      TEXT NOT NULL,
    session_id INTEGER NOT NULL,
    response   INTEGER NOT NULL,       -- responses.id of the line
    changed_by INTEGER NOT NULL        -- responses.id of its last change, or of the line
) STRICT;
