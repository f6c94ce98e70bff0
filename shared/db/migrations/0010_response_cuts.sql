-- A platform may find a part of a response too long. responses.cuts is a JSON array of the parts that were cut into smaller
-- ones, in that order, each by its number at that time; so no piece that was sent is sent again after a crash.
--
-- The column is added as in 0004: in the text of the schema, without reading or copying the table.

PRAGMA writable_schema = ON;
UPDATE sqlite_schema
   SET sql = replace(sql, '    CHECK ((status = ''delivering'') = (claimed_by',
                          '    cuts                TEXT
                        CHECK (cuts IS NULL OR json_valid(cuts)),      -- NULL: no part was cut
    CHECK ((status = ''delivering'') = (claimed_by')
 WHERE type = 'table' AND name = 'responses';
PRAGMA writable_schema = RESET;
-- A text in which replace() found nothing would stay as it was, without an error.
CREATE TEMP TABLE edited (texts INTEGER CONSTRAINT each_text_of_the_schema_was_edited CHECK (texts = 1)) STRICT;
INSERT INTO edited SELECT count(*) FROM main.sqlite_schema WHERE name = 'responses' AND instr(sql, 'json_valid(cuts)');
DROP TABLE edited;
CREATE VIEW schema_changed AS SELECT 1;    -- changes the schema's cookie: every other connection reads the new text
DROP VIEW schema_changed;
