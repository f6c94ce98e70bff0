-- An outage of a platform costs no attempt. responses.unsent_since is the instant of the first of the last failures in
-- which nothing left this machine; it bounds their time. channel_pauses has a row while a platform refuses our token:
-- nothing of that channel is sent meanwhile.
--
-- The column is added as in 0004: in the text of the schema, without reading or copying the table.

PRAGMA writable_schema = ON;
UPDATE sqlite_schema
   SET sql = replace(sql, '    CHECK ((status = ''delivering'') = (claimed_by',
                          '    unsent_since        INTEGER,               -- NULL: something left, or nothing was tried
    CHECK ((status = ''delivering'') = (claimed_by')
 WHERE type = 'table' AND name = 'responses';
PRAGMA writable_schema = RESET;
-- A text in which replace() found nothing would stay as it was, without an error.
CREATE TEMP TABLE edited (texts INTEGER CONSTRAINT each_text_of_the_schema_was_edited CHECK (texts = 1)) STRICT;
INSERT INTO edited SELECT count(*) FROM main.sqlite_schema WHERE name = 'responses' AND instr(sql, 'unsent_since');
DROP TABLE edited;

CREATE TABLE channel_pauses (          -- also changes the schema's cookie: every other connection reads the new text
    channel   TEXT PRIMARY KEY,
    reason    TEXT NOT NULL,           -- the platform's words, for people
    paused_at INTEGER NOT NULL,
    check_at  INTEGER NOT NULL         -- when the platform is asked about the token again
) STRICT, WITHOUT ROWID;
