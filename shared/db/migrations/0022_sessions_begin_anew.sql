-- A session that its provider lost begins anew from our own history. So a line of the history says in which session it was
-- said (NULL: in an earlier release), because another session may be another chat, and a session says which provider its
-- continuation is of (NULL: of an earlier release, or none), because no other can go on with it.

ALTER TABLE agent_messages ADD COLUMN session_id INTEGER;
ALTER TABLE sessions ADD COLUMN continued_by TEXT CHECK (continued_by IS NULL OR length(continued_by) <= 64);
