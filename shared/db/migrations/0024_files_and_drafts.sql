-- Files of responses, and drafts of turns.
--
-- responses.also has the platform's further ids of albums, as a JSON array: an album is one part with one id in parts.
-- responses.unsent_files says which of the response's files are left out and why, as a JSON array of pairs: the place
-- in files, the reason. It is written before the part is sent without them, so that a retry sends the same.
-- The columns are added as in 0004: in the text of the schema, without reading or copying the table.

PRAGMA writable_schema = ON;
UPDATE sqlite_schema
   SET sql = replace(sql, '    CHECK ((status = ''delivering'') = (claimed_by',
                          '    also                TEXT
                        CHECK (also IS NULL OR json_type(also) = ''array''),
    unsent_files        TEXT
                        CHECK (unsent_files IS NULL OR json_type(unsent_files) = ''array''),
    CHECK ((status = ''delivering'') = (claimed_by')
 WHERE type = 'table' AND name = 'responses';
PRAGMA writable_schema = RESET;
-- A text in which replace() found nothing would stay as it was, without an error.
CREATE TEMP TABLE edited (texts INTEGER CONSTRAINT each_text_of_the_schema_was_edited CHECK (texts = 1)) STRICT;
INSERT INTO edited
SELECT count(*) FROM main.sqlite_schema WHERE name = 'responses' AND instr(sql, 'json_type(unsent_files)');
DROP TABLE edited;
CREATE VIEW schema_changed AS SELECT 1;    -- changes the schema's cookie: every other connection reads the new text
DROP VIEW schema_changed;

-- Whether people see a preview of the agent's answer while its turn runs, where the platform has such previews.
ALTER TABLE agents ADD COLUMN drafts INTEGER NOT NULL DEFAULT 0 CHECK (drafts = 0 OR drafts = 1);

CREATE TABLE drafts (                  -- the preview of a running turn; its stop button comes back with the id
    id          INTEGER PRIMARY KEY CHECK (id BETWEEN 1 AND 2147483647),
    turn        TEXT NOT NULL UNIQUE,  -- messages.claimed_by
    agent       TEXT NOT NULL,
    session_id  INTEGER NOT NULL,
    channel     TEXT NOT NULL,
    platform_id TEXT NOT NULL,         -- of the chat that sees it
    created_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX drafts_by_age ON drafts (created_at);
