-- A turn over several messages that fails for good proves nothing about any one of them. Each of them then runs in a turn
-- of its own: messages.runs_alone says so.
--
-- The column is added as in 0004: in the text of the schema, without reading or copying the table.

PRAGMA writable_schema = ON;
UPDATE sqlite_schema
   SET sql = replace(sql, '    CHECK ((status = ''processing'') = (claimed_by',
                     '    runs_alone          INTEGER CHECK (runs_alone = 1),  -- no other message joins its turn; else NULL
    CHECK ((status = ''processing'') = (claimed_by')
 WHERE type = 'table' AND name = 'messages';
PRAGMA writable_schema = RESET;
-- A text in which replace() found nothing would stay as it was, without an error.
CREATE TEMP TABLE edited (texts INTEGER CONSTRAINT each_text_of_the_schema_was_edited CHECK (texts = 1)) STRICT;
INSERT INTO edited
SELECT count(*) FROM main.sqlite_schema WHERE name = 'messages' AND instr(sql, '    runs_alone ');
DROP TABLE edited;

CREATE VIEW schema_changed AS SELECT 1;    -- changes the schema's cookie: every other connection reads the new text
DROP VIEW schema_changed;
