-- A schedule may have a session of its own beside that of its chat: its runs know each other, and not the chat.

ALTER TABLE sessions ADD COLUMN series_id TEXT;    -- the schedule; NULL: the chat's, or the agent's own
DROP INDEX sessions_one_active;
CREATE UNIQUE INDEX sessions_one_active
    ON sessions (agent, ifnull(chat_id, 0), ifnull(thread_id, ''), ifnull(private_to, ''), ifnull(series_id, ''))
    WHERE status = 'active';
