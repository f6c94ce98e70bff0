-- State gets checked columns: until now some of it stood in the prose of last_error, or in an instant in the year 9999.
--
-- messages.failure and responses.failure say how the last attempt failed. Statements read the code; last_error is for
-- people only. A paused response has the status 'paused'. A response that an operator deleted while it was the newest row
-- has the status 'deleted' until the next one is deleted: an id is never used twice.
--
-- No statement here reads or copies a whole table, so ten million rows migrate as fast as ten. SQLite can't change a
-- CHECK in place, and ADD COLUMN tests every row of a STRICT table. But a last column that is NULL in each row, and a
-- constraint or an index that allows more, change nothing on the disk while no row has a new state. So the text of the
-- schema is edited: https://sqlite.org/lang_altertable.html, "Making Other Kinds Of Table Schema Changes".

PRAGMA writable_schema = ON;
UPDATE sqlite_schema
   SET sql = replace(sql, '    CHECK ((status = ''processing'') = (claimed_by', '    failure             TEXT
                        CHECK (failure IS NULL OR failure = ''error'' OR failure = ''rate_limited''
                               OR failure = ''process_gone''),    -- of the last attempt; NULL: none failed
    CHECK ((status = ''processing'') = (claimed_by')
 WHERE type = 'table' AND name = 'messages';
UPDATE sqlite_schema
   SET sql = replace(replace(sql, '    CHECK ((status = ''delivering'') = (claimed_by', '    failure             TEXT
                        CHECK (failure IS NULL OR failure = ''error'' OR failure = ''rate_limited''
                               OR failure = ''outcome_unknown'' OR failure = ''not_fetched''
                               OR failure = ''called_off''),      -- of the last attempt; NULL: none failed
    CHECK ((status = ''delivering'') = (claimed_by'),
                     'OR status = ''acked'' OR status = ''dead'')',
                     'OR status = ''acked'' OR status = ''dead''
                               OR status = ''paused'' OR status = ''deleted'')')
 WHERE type = 'table' AND name = 'responses';
UPDATE sqlite_schema                   -- paused responses are live: one of a series, and what is planned
   SET sql = replace(sql, 'OR status = ''delivering'')', 'OR status = ''delivering'' OR status = ''paused'')')
 WHERE type = 'index' AND (name = 'responses_one_live' OR name = 'responses_planned');
UPDATE sqlite_schema
   SET sql = replace(sql, 'WHERE status = ''dead''', 'WHERE status = ''dead'' OR status = ''deleted''')
 WHERE type = 'index' AND name = 'responses_dead';
PRAGMA writable_schema = RESET;
-- A text in which replace() found nothing would stay as it was, without an error.
CREATE TEMP TABLE edited (texts INTEGER CONSTRAINT each_text_of_the_schema_was_edited CHECK (texts = 5)) STRICT;
INSERT INTO edited
SELECT count(*)
  FROM main.sqlite_schema
 WHERE (name = 'messages' AND instr(sql, '''process_gone'''))
    OR (name = 'responses' AND instr(sql, '''called_off''') AND instr(sql, '''paused'''))
    OR ((name = 'responses_one_live' OR name = 'responses_planned') AND instr(sql, '''paused'''))
    OR (name = 'responses_dead' AND instr(sql, '''deleted'''));
DROP TABLE edited;
CREATE VIEW schema_changed AS SELECT 1;    -- changes the schema's cookie: every other connection reads the new text
DROP VIEW schema_changed;

-- By the partial indexes of what is open, dead or resting: nothing else can have failed.
UPDATE messages
   SET failure = iif(last_error = 'the process that ran the turn went away', 'process_gone', 'error')
 WHERE trigger = 1 AND (status = 'pending' OR status = 'processing') AND last_error IS NOT NULL;
UPDATE messages
   SET failure = iif(last_error = 'the process that ran the turn went away', 'process_gone', 'error')
 WHERE status = 'dead' AND last_error IS NOT NULL;
UPDATE messages
   SET failure = 'error'
 WHERE (status = 'paused' OR status = 'cancelled') AND status = 'paused' AND last_error IS NOT NULL;

UPDATE responses
   SET status = 'paused', deliver_after = scheduled_at
 WHERE series_id IS NOT NULL AND (status = 'pending' OR status = 'delivering' OR status = 'paused')
   AND status = 'pending' AND deliver_after = 253370764800000;
UPDATE responses
   SET failure = iif(part_started IS NOT NULL AND status = 'pending', 'outcome_unknown', 'error')
 WHERE (status = 'pending' OR status = 'delivering') AND last_error IS NOT NULL;
UPDATE responses
   SET status = 'deleted', last_error = NULL
 WHERE status = 'dead' AND last_error = 'deleted by hand';
UPDATE responses
   SET failure = CASE WHEN last_error = 'nobody fetched it in time' THEN 'not_fetched'
                      WHEN series_id IS NOT NULL AND last_error = 'the series was cancelled' THEN 'called_off'
                      WHEN part_started IS NOT NULL THEN 'outcome_unknown'
                      ELSE 'error' END
 WHERE status = 'dead' AND last_error IS NOT NULL;
