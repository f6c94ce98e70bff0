-- State gets checked columns: until now some of it stood in the prose of last_error, or in an instant in the year 9999.
--
-- messages.failure and responses.failure say how the last attempt failed. Statements read the code; last_error is for
-- people only. A paused response has the status 'paused'. A response that an operator deleted while it was the newest row
-- has the status 'deleted' until the next one is deleted: an id is never used twice.
--
-- SQLite cannot change a CHECK in place, and a copy of ten million responses would need the disk and the log for all of
-- them. A CHECK that allows more changes no row, so the text of the schema is edited:
-- https://sqlite.org/lang_altertable.html, "Making Other Kinds Of Table Schema Changes". The statements that follow it
-- change the schema's cookie, so that every other connection reads the new text.

PRAGMA writable_schema = ON;
UPDATE sqlite_schema
   SET sql = replace(sql, 'OR status = ''acked'' OR status = ''dead'')',
                     'OR status = ''acked'' OR status = ''dead''
                               OR status = ''paused'' OR status = ''deleted'')')
 WHERE type = 'table' AND name = 'responses';
PRAGMA writable_schema = RESET;

ALTER TABLE messages ADD COLUMN failure TEXT          -- of the last attempt; NULL: it did not fail, or there was none
    CHECK (failure IS NULL OR failure = 'error' OR failure = 'rate_limited' OR failure = 'process_gone');
UPDATE messages
   SET failure = iif(last_error = 'the process that ran the turn went away', 'process_gone', 'error')
 WHERE last_error IS NOT NULL AND status <> 'completed' AND status <> 'cancelled';

ALTER TABLE responses ADD COLUMN failure TEXT         -- of the last attempt; NULL: it did not fail, or there was none
    CHECK (failure IS NULL OR failure = 'error' OR failure = 'rate_limited' OR failure = 'outcome_unknown'
           OR failure = 'not_fetched' OR failure = 'called_off');
UPDATE responses
   SET status = 'deleted', last_error = NULL
 WHERE status = 'dead' AND last_error = 'deleted by hand';
UPDATE responses
   SET failure = CASE WHEN status = 'dead' AND last_error = 'nobody fetched it in time' THEN 'not_fetched'
                      WHEN status = 'dead' AND series_id IS NOT NULL AND last_error = 'the series was cancelled'
                      THEN 'called_off'
                      WHEN part_started IS NOT NULL AND status <> 'delivering' THEN 'outcome_unknown'
                      ELSE 'error' END
 WHERE last_error IS NOT NULL AND status <> 'acked';

-- Paused responses are live: one of a series, and what is planned.
DROP INDEX responses_one_live;
CREATE UNIQUE INDEX responses_one_live ON responses (series_id)
    WHERE recurrence IS NOT NULL AND (status = 'pending' OR status = 'delivering' OR status = 'paused');
DROP INDEX responses_planned;
CREATE INDEX responses_planned ON responses (series_id, id)
    WHERE series_id IS NOT NULL AND (status = 'pending' OR status = 'delivering' OR status = 'paused');
UPDATE responses
   SET status = 'paused', deliver_after = scheduled_at
 WHERE status = 'pending' AND deliver_after = 253370764800000 AND series_id IS NOT NULL;
CREATE INDEX responses_resting ON responses (id) WHERE status = 'paused' OR status = 'deleted';
