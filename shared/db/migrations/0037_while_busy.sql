-- What a wiring does with a message that comes while its agent works, and how long a turn waits for more lines.

ALTER TABLE wirings ADD COLUMN while_busy TEXT NOT NULL DEFAULT 'collect'
    CHECK (while_busy = 'collect' OR while_busy = 'steer' OR while_busy = 'followup' OR while_busy = 'interrupt');
ALTER TABLE wirings ADD COLUMN debounce_ms INTEGER CHECK (debounce_ms BETWEEN 0 AND 10000);   -- NULL: by the provider

ALTER TABLE messages ADD COLUMN while_busy TEXT       -- of its wiring, when it was stored; NULL: 'collect', or no wiring
    CHECK (while_busy = 'steer' OR while_busy = 'followup' OR while_busy = 'interrupt');
ALTER TABLE messages ADD COLUMN gathers_until INTEGER;    -- its session waits so long for more lines of its sender

CREATE INDEX messages_gathering ON messages (gathers_until) WHERE gathers_until IS NOT NULL AND status = 'pending';
CREATE INDEX messages_at_turns ON messages (session_id, id)
    WHERE (while_busy = 'steer' OR while_busy = 'interrupt') AND status = 'pending';
