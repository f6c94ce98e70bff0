-- A message's visible id is drawn at random and stored. Until now it was computed from the row's id: so anybody could
-- guess it, and after the loss of the newest rows the same id named another message.
--
-- Every message keeps the id that was given out: the computed one is written into its row, into the column that until
-- now held the ids of callers only. The index that holds those unique then holds all of them, given and random. This
-- writes every message once, some 10 s a million. The column that computed the id took no room in the rows, so taking
-- it out of the schema changes nothing on the disk.
--
-- And a JSON column that holds an object, or an array, holds nothing else; until now any JSON was allowed. A row with other
-- JSON made every reader of it fail. What such a row holds is kept as text, under the key 'unreadable'.

-- An id_prefix of '' says that a caller gave the whole id.
DROP INDEX messages_given;
UPDATE messages SET id_prefix = '' WHERE given_id IS NOT NULL;
UPDATE messages SET given_id = message_id WHERE given_id IS NULL;

UPDATE messages SET content = json_object('unreadable', content)
 WHERE CASE WHEN json_valid(content) THEN json_type(content) END IS NOT 'object';
UPDATE messages SET files = '[]'
 WHERE CASE WHEN json_valid(files) THEN json_type(files) END IS NOT 'array';
UPDATE responses SET content = json_object('unreadable', content)
 WHERE CASE WHEN json_valid(content) THEN json_type(content) END IS NOT 'object';
UPDATE responses SET files = '[]'
 WHERE CASE WHEN json_valid(files) THEN json_type(files) END IS NOT 'array';
UPDATE responses SET metadata = json_object('unreadable', metadata)
 WHERE CASE WHEN json_valid(metadata) THEN json_type(metadata) END IS NOT 'object';
UPDATE responses SET parts = '[]'
 WHERE CASE WHEN json_valid(parts) THEN json_type(parts) END IS NOT 'array';
UPDATE agents SET config = '{}'
 WHERE CASE WHEN json_valid(config) THEN json_type(config) END IS NOT 'object';
UPDATE questions SET options = '[]'
 WHERE CASE WHEN json_valid(options) THEN json_type(options) END IS NOT 'array';
UPDATE approvals SET payload = json_object('unreadable', payload)
 WHERE CASE WHEN json_valid(payload) THEN json_type(payload) END IS NOT 'object';
UPDATE approvals SET options = '[]'
 WHERE CASE WHEN json_valid(options) THEN json_type(options) END IS NOT 'array';

-- As in 0004: SQLite can't change a CHECK in place, so the text of the schema is edited. Nearly every row holds '{}' and
-- '[]', which is compared faster than it is parsed.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema
   SET sql = replace(replace(sql,
       '    given_id            TEXT,                  -- the caller''s own id of the message; unique',
       '    message_id          TEXT NOT NULL,         -- the id that people see: random, or the caller''s own; unique'),
       '    message_id          TEXT GENERATED ALWAYS AS (
                        ifnull(given_id, format(''%s_%08x'', id_prefix, (id * 1640531527 + 1013904223) & 4294967295))) VIRTUAL,
', '')
 WHERE type = 'table' AND name = 'messages';
UPDATE sqlite_schema
   SET sql = replace(replace(replace(replace(replace(replace(replace(sql,
       'json_valid(content)', 'content = ''{}'' OR (json_valid(content) AND json_type(content) = ''object'')'),
       'json_valid(files)', 'files = ''[]'' OR (json_valid(files) AND json_type(files) = ''array'')'),
       'json_valid(metadata)', 'metadata = ''{}'' OR (json_valid(metadata) AND json_type(metadata) = ''object'')'),
       'json_valid(parts)', 'parts = ''[]'' OR (json_valid(parts) AND json_type(parts) = ''array'')'),
       'json_valid(config)', 'config = ''{}'' OR (json_valid(config) AND json_type(config) = ''object'')'),
       'json_valid(payload)', 'payload = ''{}'' OR (json_valid(payload) AND json_type(payload) = ''object'')'),
       'json_valid(options)', 'options = ''[]'' OR (json_valid(options) AND json_type(options) = ''array'')')
 WHERE type = 'table'
   AND (name = 'messages' OR name = 'responses' OR name = 'agents' OR name = 'questions' OR name = 'approvals');
PRAGMA writable_schema = RESET;
-- A text in which replace() found nothing would stay as it was, without an error.
CREATE TEMP TABLE edited (texts INTEGER CONSTRAINT each_text_of_the_schema_was_edited CHECK (texts = 5)) STRICT;
INSERT INTO edited
SELECT count(*)
  FROM main.sqlite_schema
 WHERE (name = 'messages' AND instr(sql, 'message_id          TEXT NOT NULL') AND NOT instr(sql, 'given_id')
        AND instr(sql, 'json_type(content) = ''object''') AND instr(sql, 'json_type(files) = ''array'''))
    OR (name = 'responses' AND instr(sql, 'json_type(content) = ''object''')
        AND instr(sql, 'json_type(files) = ''array''') AND instr(sql, 'json_type(metadata) = ''object''')
        AND instr(sql, 'json_type(parts) = ''array'''))
    OR (name = 'agents' AND instr(sql, 'json_type(config) = ''object'''))
    OR (name = 'questions' AND instr(sql, 'json_type(options) = ''array'''))
    OR (name = 'approvals' AND instr(sql, 'json_type(payload) = ''object''')
        AND instr(sql, 'json_type(options) = ''array'''));
DROP TABLE edited;
-- It also changes the schema's cookie: every other connection reads the new text.
CREATE UNIQUE INDEX messages_message_id ON messages (message_id);
