-- What stands before the model in a run of a schedule: a script, and whether something must have happened.

ALTER TABLE messages ADD COLUMN script TEXT NOT NULL DEFAULT '';
ALTER TABLE messages ADD COLUMN wake TEXT NOT NULL DEFAULT 'always' CHECK (wake = 'always' OR wake = 'news');
