-- What mends a deaf channel where connecting it again does not: a setting that only an operator can change.

ALTER TABLE channel_watches ADD COLUMN mend TEXT;    -- what to do, for people; NULL: connect the channel again
