-- Dispatch looks for what interrupts a turn at every step; what is steered into one is found with its session.

DROP INDEX messages_at_turns;
CREATE INDEX messages_interrupting ON messages (session_id) WHERE while_busy = 'interrupt' AND status = 'pending';
