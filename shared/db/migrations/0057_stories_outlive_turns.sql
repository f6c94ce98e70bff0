-- What a turn has said is kept while a message of its story is open, however long that takes.

CREATE INDEX messages_of_story ON messages (spoken)
    WHERE spoken IS NOT NULL AND (status = 'pending' OR status = 'processing');
