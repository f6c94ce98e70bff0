-- A cause that stands for days goes on to kill messages: that is told again.

ALTER TABLE alerts ADD COLUMN latest INTEGER;  -- when it last happened; NULL: it does not repeat
