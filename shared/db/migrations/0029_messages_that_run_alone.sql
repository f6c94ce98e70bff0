-- A turn over several messages that fails for good proves nothing about any one of them. Each of them then runs in a turn
-- of its own: messages.runs_alone says so.
--
-- The loss of dispatch or of its host is no attempt any more. messages.suspicion counts what speaks for it that the
-- agent's program took dispatch down: 10 for a dispatch that went away while its host stayed, 1 for a lost host. From 20 on
-- the message is a suspect: no other suspect runs beside it, and where it runs alone, the loss of dispatch is an attempt.
--
-- The columns are added as in 0004: in the text of the schema, without reading or copying the table.

PRAGMA writable_schema = ON;
UPDATE sqlite_schema
   SET sql = replace(sql, '    CHECK ((status = ''processing'') = (claimed_by',
                     '    runs_alone          INTEGER CHECK (runs_alone = 1),  -- no other message joins its turn; else NULL
    suspicion           INTEGER CHECK (suspicion > 0),   -- of taking dispatch down; NULL: none
    CHECK ((status = ''processing'') = (claimed_by')
 WHERE type = 'table' AND name = 'messages';
PRAGMA writable_schema = RESET;
-- A text in which replace() found nothing would stay as it was, without an error.
CREATE TEMP TABLE edited (texts INTEGER CONSTRAINT each_text_of_the_schema_was_edited CHECK (texts = 1)) STRICT;
INSERT INTO edited
SELECT count(*)
  FROM main.sqlite_schema
 WHERE name = 'messages' AND instr(sql, '    runs_alone ') AND instr(sql, '    suspicion ');
DROP TABLE edited;

CREATE VIEW schema_changed AS SELECT 1;    -- changes the schema's cookie: every other connection reads the new text
DROP VIEW schema_changed;

-- By the partial index of what is open. Until now retry_count counted the losses.
UPDATE messages
   SET suspicion = 10 * retry_count
 WHERE trigger = 1 AND (status = 'pending' OR status = 'processing') AND failure = 'process_gone' AND retry_count > 0;
