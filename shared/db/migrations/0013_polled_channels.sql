-- The channels whose responses a client has fetched at least once. Such a client waits for a response to each message
-- that it sent, so a message that ends without an answer gets an empty one.
CREATE TABLE polled_channels (
    channel    TEXT PRIMARY KEY CHECK (channel GLOB '[a-z0-9]*' AND length(channel) <= 32),
    created_at INTEGER NOT NULL        -- when a client fetched from it for the first time
) STRICT, WITHOUT ROWID;
