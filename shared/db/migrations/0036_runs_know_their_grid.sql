-- What a run of a schedule missed can be told from its own row: the grid when it began, and the run before it.

ALTER TABLE schedule_runs ADD COLUMN recurrence TEXT;            -- NULL: a single occurrence, or not known any more
ALTER TABLE schedule_runs ADD COLUMN timezone TEXT;
ALTER TABLE schedule_runs ADD COLUMN made_at INTEGER;            -- of its occurrence; NULL: before this column
ALTER TABLE schedule_runs ADD COLUMN previous_due_at INTEGER;    -- of the run before; due_at itself: it was begun twice

UPDATE schedule_runs
   SET previous_due_at = before.due_at
  FROM (SELECT id, lag(due_at) OVER (PARTITION BY series_id ORDER BY due_at, id) AS due_at FROM schedule_runs) before
 WHERE before.id = schedule_runs.id;

UPDATE schedule_runs
   SET recurrence = planned.recurrence,
       timezone = planned.timezone
  FROM (SELECT series_id, recurrence, timezone FROM messages WHERE recurrence IS NOT NULL
        UNION
        SELECT series_id, recurrence, timezone FROM responses WHERE recurrence IS NOT NULL) planned
 WHERE planned.series_id = schedule_runs.series_id;
