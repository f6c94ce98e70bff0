-- What a turn says while it runs is stored before the agent is told so. Each such act has a row in spoken, under the key
-- of the call in its turn: a repeated call finds that row. A message in whose turn something was said names that turn in
-- messages.spoken: no other turn takes it by itself. messages.failure gets the words for the reasons why an agent can't
-- work.
--
-- The column and the words are added as in 0004: in the text of the schema, without reading or copying the table.

PRAGMA writable_schema = ON;
UPDATE sqlite_schema
   SET sql = replace(replace(sql, 'OR failure = ''memory_limit''',
                                  'OR failure = ''memory_limit'' OR failure = ''interrupted''
                               OR failure = ''overloaded'' OR failure = ''network'' OR failure = ''malformed''
                               OR failure = ''session_lost'' OR failure = ''session_busy''
                               OR failure = ''tools_unavailable'' OR failure = ''runaway''
                               OR failure = ''context_too_long'' OR failure = ''auth'' OR failure = ''quota''
                               OR failure = ''budget'' OR failure = ''bad_config''
                               OR failure = ''not_installed'' OR failure = ''model_not_found'''),
                     '    CHECK ((status = ''processing'') = (claimed_by',
                     '    spoken              TEXT,                  -- the first turn that said something for good
    CHECK ((status = ''processing'') = (claimed_by')
 WHERE type = 'table' AND name = 'messages';
PRAGMA writable_schema = RESET;
-- A text in which replace() found nothing would stay as it was, without an error.
CREATE TEMP TABLE edited (texts INTEGER CONSTRAINT each_text_of_the_schema_was_edited CHECK (texts = 1)) STRICT;
INSERT INTO edited
SELECT count(*)
  FROM main.sqlite_schema
 WHERE name = 'messages' AND instr(sql, '''model_not_found''') AND instr(sql, '    spoken ');
DROP TABLE edited;

CREATE TABLE spoken (                  -- also changes the schema's cookie: every other connection reads the new text
    id         INTEGER PRIMARY KEY,
    turn       TEXT NOT NULL,          -- the token of the claim
    call       TEXT NOT NULL,          -- the key of the call in that turn
    story      TEXT NOT NULL,          -- messages.spoken of the messages in whose turn it was
    response   INTEGER,                -- responses.id, which may be pruned; NULL: an act of another kind
    created_at INTEGER NOT NULL,
    UNIQUE (turn, call)
) STRICT;
CREATE INDEX spoken_of_story ON spoken (story, id);
CREATE INDEX spoken_by_time ON spoken (created_at);
