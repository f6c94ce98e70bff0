-- messages.failure says by a word of its own which limit ended an agent's program, or that it crashed, was killed or never
-- started. The word also tells who ended it: see shared/core/failures.py.
--
-- The constraint is widened as in 0004: in the text of the schema, without reading or copying the table.

PRAGMA writable_schema = ON;
UPDATE sqlite_schema
   SET sql = replace(sql, 'OR failure = ''process_gone''',
                          'OR failure = ''process_gone'' OR failure = ''crashed'' OR failure = ''killed''
                               OR failure = ''not_started'' OR failure = ''idle_timeout''
                               OR failure = ''tool_timeout'' OR failure = ''turn_timeout''
                               OR failure = ''output_limit'' OR failure = ''memory_limit''')
 WHERE type = 'table' AND name = 'messages';
PRAGMA writable_schema = RESET;
-- A text in which replace() found nothing would stay as it was, without an error.
CREATE TEMP TABLE edited (texts INTEGER CONSTRAINT each_text_of_the_schema_was_edited CHECK (texts = 1)) STRICT;
INSERT INTO edited SELECT count(*) FROM main.sqlite_schema WHERE name = 'messages' AND instr(sql, '''memory_limit''');
DROP TABLE edited;
CREATE VIEW schema_changed AS SELECT 1;    -- changes the schema's cookie: every other connection reads the new text
DROP VIEW schema_changed;
