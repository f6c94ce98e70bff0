-- A person has an agent forget what they said. The history knows for that whose line each is.

ALTER TABLE agent_messages ADD COLUMN sender_id TEXT;    -- of the person who wrote it, or whose message it answers
UPDATE agent_messages
   SET sender_id = (SELECT m.sender_id FROM messages m WHERE m.message_id = agent_messages.message_id)
 WHERE id > (SELECT max(id) - 100000 FROM agent_messages);    -- messages are kept for a day

CREATE TABLE forgotten_people (    -- whose older lines sweep has still to delete
    agent     TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    platform  TEXT NOT NULL,
    sender_id TEXT NOT NULL,
    before    INTEGER NOT NULL,    -- agent_messages.id; the newer ones are done
    PRIMARY KEY (agent, platform, sender_id)
) STRICT, WITHOUT ROWID;
