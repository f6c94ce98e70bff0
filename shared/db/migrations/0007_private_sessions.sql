-- Some platforms show a message in a group to one person and the bot alone, and its answer too. Such messages have a
-- session of that person's own: nothing of them is in the context in which others are answered.

ALTER TABLE sessions ADD COLUMN private_to TEXT      -- the person's id on the chat's channel; NULL: for the whole chat
    CHECK (private_to IS NULL OR chat_id IS NOT NULL);
DROP INDEX sessions_one_active;
CREATE UNIQUE INDEX sessions_one_active
    ON sessions (agent, ifnull(chat_id, 0), ifnull(thread_id, ''), ifnull(private_to, '')) WHERE status = 'active';
