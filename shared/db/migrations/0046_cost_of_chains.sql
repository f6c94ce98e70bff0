-- What one message has cost over all agents that worked because of it, and the word for a turn that is too much of that.

-- What began the chain of the turn (shared/core/hops.py); NULL: a turn of an earlier release.
ALTER TABLE usage ADD COLUMN origin TEXT;
CREATE INDEX usage_of_chain ON usage (origin) WHERE origin IS NOT NULL;

-- The constraint is widened as in 0004: in the text of the schema, without reading or copying the table.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema
   SET sql = replace(sql, 'OR failure = ''memory_limit''', 'OR failure = ''memory_limit'' OR failure = ''chain_cost''')
 WHERE type = 'table' AND name = 'messages';
PRAGMA writable_schema = RESET;
-- A text in which replace() found nothing would stay as it was, without an error.
CREATE TEMP TABLE edited (texts INTEGER CONSTRAINT each_text_of_the_schema_was_edited CHECK (texts = 1)) STRICT;
INSERT INTO edited SELECT count(*) FROM main.sqlite_schema WHERE name = 'messages' AND instr(sql, '''chain_cost''');
DROP TABLE edited;
CREATE VIEW schema_changed AS SELECT 1;    -- changes the schema's cookie: every other connection reads the new text
DROP VIEW schema_changed;
