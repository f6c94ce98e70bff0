-- A message that always asks the model, as nearly every one does, leaves its column `wake` empty. The word stood in
-- each row, and cost a third of a page with each turn. Rows that have the word keep it, and mean the same.
-- The column is changed as in 0038: in the text of the schema, without reading or copying the table.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema
   SET sql = replace(sql, 'wake TEXT NOT NULL DEFAULT ''always'' CHECK (', 'wake TEXT CHECK (')
 WHERE type = 'table' AND name = 'messages';
PRAGMA writable_schema = RESET;
CREATE TEMP TABLE edited (texts INTEGER CONSTRAINT the_text_of_the_schema_was_edited CHECK (texts = 1)) STRICT;
INSERT INTO edited SELECT count(*) FROM main.sqlite_schema WHERE name = 'messages' AND instr(sql, 'wake TEXT CHECK (');
DROP TABLE edited;
CREATE VIEW schema_changed AS SELECT 1;    -- changes the schema's cookie: every other connection reads the new text
DROP VIEW schema_changed;
