-- What makes an event known is kept for 72 hours, however soon its message is pruned.
--
-- A wait that costs no attempt has a bound: messages.waits_since says when the first one began. The failure 'unreadable'
-- says that no attempt began, because the row itself can't be used.

CREATE TABLE event_keys (              -- of messages that are deleted, and of events that are no message
    channel    TEXT NOT NULL,          -- '': event_key is the id that a caller gave its message
    event_key  TEXT NOT NULL,
    agent      TEXT NOT NULL,          -- '': the event is no agent's
    created_at INTEGER NOT NULL,       -- when it came
    PRIMARY KEY (channel, event_key, agent)
) STRICT, WITHOUT ROWID;
CREATE INDEX event_keys_old ON event_keys (created_at);

-- When this database was first made. A new one is told when it gets its first agents.
INSERT INTO meta (key, value)
SELECT 'began_at', CAST(min(created_at) AS TEXT) FROM agents HAVING min(created_at) IS NOT NULL;

-- As in 0004: a last column that is NULL in each row, and a CHECK that allows more, change nothing on the disk.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema
   SET sql = replace(sql, 'OR failure = ''process_gone''),    -- of the last attempt; NULL: none failed',
                     'OR failure = ''process_gone'' OR failure = ''unreadable''),    -- of the last attempt
    waits_since         INTEGER,               -- when the first wait began that cost no attempt; NULL: there was none')
 WHERE type = 'table' AND name = 'messages';
UPDATE sqlite_schema
   SET sql = replace(sql, 'OR failure = ''called_off''),      -- of the last attempt; NULL: none failed',
                     'OR failure = ''called_off'' OR failure = ''unreadable''),      -- of the last attempt')
 WHERE type = 'table' AND name = 'responses';
PRAGMA writable_schema = RESET;
-- A text in which replace() found nothing would stay as it was, without an error.
CREATE TEMP TABLE edited (texts INTEGER CONSTRAINT each_text_of_the_schema_was_edited CHECK (texts = 2)) STRICT;
INSERT INTO edited
SELECT count(*)
  FROM main.sqlite_schema
 WHERE (name = 'messages' AND instr(sql, 'waits_since') AND instr(sql, '''unreadable'''))
    OR (name = 'responses' AND instr(sql, '''unreadable'''));
DROP TABLE edited;
CREATE VIEW schema_changed AS SELECT 1;    -- changes the schema's cookie: every other connection reads the new text
DROP VIEW schema_changed;
