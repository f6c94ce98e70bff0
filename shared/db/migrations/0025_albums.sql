-- A platform sends the pieces of one message apart: the photos of an album. They wait in rows until it is quiet, so that a
-- restart between two pieces loses nothing, and become one message then. What a piece said is kept until then alone; its
-- key and its id stay for as long as a copy of it may come.

CREATE TABLE albums (
    id                  INTEGER PRIMARY KEY,
    channel             TEXT NOT NULL,
    platform_id         TEXT NOT NULL,
    group_key           TEXT NOT NULL,         -- the platform's own, the same for all pieces
    sender_id           TEXT,
    status              TEXT NOT NULL DEFAULT 'gathering' CHECK (status = 'gathering' OR status = 'joined'),
    due_at              INTEGER,               -- when it is whole, unless another piece comes; ms UTC
    is_mention          INTEGER NOT NULL DEFAULT 0 CHECK (is_mention = 0 OR is_mention = 1),   -- it addressed the bot
    platform_message_id TEXT,                  -- of the message that it became
    created_at          INTEGER NOT NULL,
    updated_at          INTEGER NOT NULL,
    CHECK ((status = 'gathering') = (due_at IS NOT NULL))
) STRICT;
CREATE UNIQUE INDEX albums_gathering ON albums (channel, platform_id, group_key) WHERE status = 'gathering';
CREATE INDEX albums_due ON albums (due_at) WHERE status = 'gathering';
CREATE INDEX albums_joined ON albums (channel, platform_id, group_key) WHERE status = 'joined';
CREATE INDEX albums_old ON albums (created_at);

CREATE TABLE album_pieces (
    id                  INTEGER PRIMARY KEY,
    album_id            INTEGER NOT NULL REFERENCES albums (id) ON DELETE CASCADE,
    channel             TEXT NOT NULL,
    event_key           TEXT NOT NULL,
    platform_message_id TEXT NOT NULL,
    event               TEXT CHECK (event IS NULL OR json_valid(event)),   -- NULL: it is joined, or was deleted
    created_at          INTEGER NOT NULL,
    UNIQUE (channel, event_key)
) STRICT;
CREATE INDEX album_pieces_of_album ON album_pieces (album_id);
CREATE INDEX album_pieces_by_message ON album_pieces (platform_message_id);
