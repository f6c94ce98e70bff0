-- Whose words a line of a room has: the person whose message began the chain that it belongs to. NULL: an operator's, an
-- agent's of its own accord, or one whose message was gone before this column.

ALTER TABLE chat_messages ADD COLUMN channel TEXT;      -- the person's account of a platform
ALTER TABLE chat_messages ADD COLUMN sender_id TEXT;    -- the person's id there

UPDATE chat_messages
   SET channel = origin.channel,
       sender_id = origin.sender_id
  FROM (SELECT DISTINCT content ->> 'line' AS line, content ->> 'origin' AS message_id
          FROM messages
         WHERE channel = 'chatroom' AND json_valid(content)) heard
  JOIN messages origin ON origin.message_id = heard.message_id AND origin.sender_id IS NOT NULL
 WHERE chat_messages.id = heard.line;
