-- Beside the number of a sender's messages, their size has a limit: a second bucket in the same row, so that a message
-- still costs one statement.

ALTER TABLE rates ADD COLUMN size_full_at_us INTEGER;  -- as full_at, of bytes, in microseconds; NULL: never counted
