-- A schedule says how late a run may begin, and may leave out what was missed. Each instant that no run stands for is
-- in a row, with its reason.

CREATE TABLE missed_runs (             -- instants of a series that have no run of their own
    id         INTEGER PRIMARY KEY,    -- no AUTOINCREMENT: prune never deletes the newest row
    series_id  TEXT NOT NULL,
    message_id TEXT NOT NULL,          -- of the occurrence that was planned, or that ran in their place
    due_at     INTEGER NOT NULL,       -- the first of them
    until_at   INTEGER,                -- those of the grid before this instant too; NULL: the first alone
    recurrence TEXT,                   -- the grid; NULL: the plan had one occurrence
    timezone   TEXT,
    reason     TEXT NOT NULL CHECK (reason = 'too_late' OR reason = 'coalesced' OR reason = 'ended'),
    noted_at   INTEGER NOT NULL
) STRICT;
CREATE INDEX missed_runs_of_series ON missed_runs (series_id, id);

-- The constraint is widened and the column added as in 0004: in the text of the schema, without reading or copying the
-- table.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema
   SET sql = replace(replace(sql, 'OR misfire = ''catch_up'')', 'OR misfire = ''catch_up'' OR misfire = ''skip'')'),
                     '    CHECK ((status = ''processing'') = (claimed_by',
                     '    grace_ms            INTEGER CHECK (grace_ms >= 0),   -- how late it may begin; NULL: see misfire
    CHECK ((status = ''processing'') = (claimed_by')
 WHERE type = 'table' AND name = 'messages';
UPDATE sqlite_schema
   SET sql = replace(replace(sql, 'OR misfire = ''catch_up'')', 'OR misfire = ''catch_up'' OR misfire = ''skip'')'),
                     '    CHECK ((status = ''delivering'') = (claimed_by',
                     '    grace_ms            INTEGER CHECK (grace_ms >= 0),   -- how late it may go out; NULL: see misfire
    CHECK ((status = ''delivering'') = (claimed_by')
 WHERE type = 'table' AND name = 'responses';
PRAGMA writable_schema = RESET;
-- A text in which replace() found nothing would stay as it was, without an error.
CREATE TEMP TABLE edited (texts INTEGER CONSTRAINT each_text_of_the_schema_was_edited CHECK (texts = 2)) STRICT;
INSERT INTO edited
SELECT count(*)
  FROM main.sqlite_schema
 WHERE (name = 'messages' OR name = 'responses') AND instr(sql, '''skip''') AND instr(sql, '    grace_ms ');
DROP TABLE edited;
CREATE VIEW schema_changed AS SELECT 1;    -- changes the schema's cookie: every other connection reads the new text
DROP VIEW schema_changed;
