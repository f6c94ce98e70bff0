-- A dropped message is found again by the id that people see on the platform, and listed with its sender's name.
-- The text is still nowhere. Rows of earlier releases stay without both.

ALTER TABLE dropped ADD COLUMN platform_message_id TEXT;
ALTER TABLE dropped ADD COLUMN sender TEXT;
