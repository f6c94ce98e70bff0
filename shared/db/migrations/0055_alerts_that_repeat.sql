-- An alert is repeated while its cause keeps killing messages.

ALTER TABLE alerts ADD COLUMN latest INTEGER;  -- when it last happened; NULL: it does not repeat
