-- How often a part was sent without an answer, and when that was found last: a platform that can't show what arrived gets a
-- part twice at most, and one that answers to no chat has an outage.

ALTER TABLE unknown_sends ADD COLUMN sends INTEGER NOT NULL DEFAULT 1 CHECK (sends >= 1);
ALTER TABLE unknown_sends ADD COLUMN last_at INTEGER;    -- NULL: before this column
