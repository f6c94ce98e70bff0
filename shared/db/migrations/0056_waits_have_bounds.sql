-- A clock that is set back makes no wait longer: the row knows when the wait was asked for.

ALTER TABLE responses ADD COLUMN failed_at INTEGER;  -- when its last attempt failed; NULL: none, or before this release
ALTER TABLE chats ADD COLUMN held_at INTEGER;        -- when the platform asked for silence
ALTER TABLE rates ADD COLUMN taken_at INTEGER;       -- when something was last taken of it
