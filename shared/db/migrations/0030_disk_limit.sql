-- A limit of what an agent's turns may write to the disk, and its word on the message. NULL: as the settings say.

ALTER TABLE agents ADD COLUMN disk_limit_mb INTEGER CHECK (disk_limit_mb >= 1);

-- The constraint is widened as in 0004: in the text of the schema, without reading or copying the table.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema
   SET sql = replace(sql, 'OR failure = ''memory_limit''', 'OR failure = ''memory_limit'' OR failure = ''disk_limit''')
 WHERE type = 'table' AND name = 'messages';
PRAGMA writable_schema = RESET;
-- A text in which replace() found nothing would stay as it was, without an error.
CREATE TEMP TABLE edited (texts INTEGER CONSTRAINT each_text_of_the_schema_was_edited CHECK (texts = 1)) STRICT;
INSERT INTO edited SELECT count(*) FROM main.sqlite_schema WHERE name = 'messages' AND instr(sql, '''disk_limit''');
DROP TABLE edited;
CREATE VIEW schema_changed AS SELECT 1;    -- changes the schema's cookie: every other connection reads the new text
DROP VIEW schema_changed;
