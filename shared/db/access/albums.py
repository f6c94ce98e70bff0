"""Albums: the pieces of one message that a platform sends apart, until it is quiet and they are joined.

::

    add ──> gathering ──join──> joined ──> pruned, when no copy of a piece can come any more

What the pieces said is stored here until they are joined, and no longer.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw

from shared.db.engine.connection import rows, scalar

_MOST_AT_ONCE = 100  # albums of one transaction


class Album(NamedTuple):
    """A row of ``albums`` that gathers. *is_mention*: an earlier album with this key addressed the bot."""

    id: int
    channel: str
    platform_id: str
    sender_id: str | None
    is_mention: bool


class StoredPiece(NamedTuple):
    """A row of ``album_pieces``; *event* is JSON."""

    id: int
    platform_message_id: str
    event: str


def has_piece(conn: apsw.Connection, channel: str, event_key: str) -> bool:
    """Whether a piece with this key has come before, whatever became of it."""
    known = "SELECT 1 FROM album_pieces WHERE channel = :channel AND event_key = :event_key"
    return bool(scalar(conn, known, {"channel": channel, "event_key": event_key}))


_GATHER = """
    INSERT INTO albums (channel, platform_id, group_key, sender_id, due_at, is_mention, created_at, updated_at)
    VALUES (:channel, :platform_id, :group_key, :sender_id, :due,
            (SELECT ifnull(max(is_mention), 0)
               FROM albums
              WHERE channel = :channel AND platform_id = :platform_id AND group_key = :group_key
                AND status = 'joined'),
            :now, :now)
    ON CONFLICT (channel, platform_id, group_key) WHERE status = 'gathering'
    DO UPDATE SET due_at = excluded.due_at, updated_at = excluded.updated_at
    RETURNING id
"""

_ADD = """
    INSERT INTO album_pieces (album_id, channel, event_key, platform_message_id, event, created_at)
    VALUES (:album, :channel, :event_key, :platform_message_id, :event, :now)
"""

_FULL = """
    UPDATE albums
       SET due_at = :now
     WHERE id = :album AND status = 'gathering'
       AND (SELECT count(*) FROM album_pieces WHERE album_id = :album) >= :most
"""


def add(
    conn: apsw.Connection,
    *,
    channel: str,
    platform_id: str,
    group_key: str,
    sender_id: str | None,
    event_key: str,
    platform_message_id: str,
    event: str,
    most: int,
    due_ms: int,
    now_ms: int,
) -> None:
    """Add a new piece to the album that gathers, or to a new one.

    Args:
        event: the piece, as JSON.
        most: with so many pieces the album is whole.
        due_ms: otherwise it is whole then, unless another piece comes.
    """
    of = {"channel": channel, "platform_id": platform_id, "group_key": group_key, "sender_id": sender_id}
    album = scalar(conn, _GATHER, {**of, "due": due_ms, "now": now_ms})
    piece = {"album": album, "channel": channel, "event_key": event_key, "event": event, "now": now_ms}
    conn.execute(_ADD, {**piece, "platform_message_id": platform_message_id})
    conn.execute(_FULL, {"album": album, "most": most, "now": now_ms})


_ALBUM = "SELECT id, channel, platform_id, sender_id, is_mention FROM albums"
DUE = f"{_ALBUM} WHERE status = 'gathering' AND due_at <= :now ORDER BY due_at, id LIMIT :limit"
OF_SENDER = f"""
    {_ALBUM}
     WHERE status = 'gathering' AND channel = :channel AND platform_id = :platform_id AND sender_id IS :sender_id
     ORDER BY id
"""
NEXT_DUE = "SELECT min(due_at) FROM albums WHERE status = 'gathering'"


def due(conn: apsw.Connection, *, now_ms: int) -> list[Album]:
    """The albums that are whole by now, the oldest first; a hundred at most."""
    return [_album(row) for row in rows(conn, DUE, {"now": now_ms, "limit": _MOST_AT_ONCE})]


def of_sender(conn: apsw.Connection, channel: str, platform_id: str, sender_id: str | None) -> list[Album]:
    """The albums of this sender that gather in the chat, the oldest first."""
    of = {"channel": channel, "platform_id": platform_id, "sender_id": sender_id}
    return [_album(row) for row in rows(conn, OF_SENDER, of)]


def _album(row: Sequence[Any]) -> Album:
    id_, channel, platform_id, sender_id, is_mention = row
    return Album(id_, channel, platform_id, sender_id, bool(is_mention))


def next_due(conn: apsw.Connection) -> int | None:
    """When the next album is whole, in ms UTC; None: none gathers."""
    found: int | None = scalar(conn, NEXT_DUE)
    return found


def pieces(conn: apsw.Connection, album_id: int) -> list[StoredPiece]:
    """The album's pieces that are still there, in the order in which they came."""
    stored = """
        SELECT id, platform_message_id, event
          FROM album_pieces
         WHERE album_id = :album AND event IS NOT NULL
         ORDER BY id
    """
    return list(map(StoredPiece._make, rows(conn, stored, {"album": album_id})))


_JOIN = """
    UPDATE albums
       SET status = 'joined', due_at = NULL, is_mention = :is_mention, platform_message_id = :message, updated_at = :now
     WHERE id = :album AND status = 'gathering'
"""


def join(
    conn: apsw.Connection, album_id: int, *, platform_message_id: str | None, is_mention: bool, now_ms: int
) -> bool:
    """Mark the album as joined, and forget what its pieces said. False: it was joined already."""
    joined = {"album": album_id, "message": platform_message_id, "is_mention": int(is_mention), "now": now_ms}
    conn.execute(_JOIN, joined)
    if not conn.changes():
        return False
    conn.execute("UPDATE album_pieces SET event = NULL WHERE album_id = :album", {"album": album_id})
    return True


GATHERED = """
    SELECT p.id, p.platform_message_id, p.event
      FROM album_pieces p
      JOIN albums a ON a.id = p.album_id
     WHERE p.platform_message_id = :message AND p.event IS NOT NULL
       AND a.channel = :channel AND a.platform_id = :platform_id AND a.status = 'gathering'
"""


def gathered(conn: apsw.Connection, channel: str, platform_id: str, platform_message_id: str) -> StoredPiece | None:
    """The piece with this id of the platform, while its album gathers; else None."""
    of = {"channel": channel, "platform_id": platform_id, "message": platform_message_id}
    found = rows(conn, GATHERED, of)
    return StoredPiece._make(found[0]) if found else None


def change(conn: apsw.Connection, piece_id: int, event: str | None) -> None:
    """Replace what a piece says, as JSON; None: its sender deleted it."""
    conn.execute(
        "UPDATE album_pieces SET event = :event WHERE id = :id AND event IS NOT NULL", {"event": event, "id": piece_id}
    )


FIRST = """
    SELECT a.platform_message_id
      FROM album_pieces p
      JOIN albums a ON a.id = p.album_id
     WHERE p.platform_message_id = :message AND a.channel = :channel AND a.platform_id = :platform_id
       AND a.status = 'joined'
     ORDER BY p.id DESC
     LIMIT 1
"""


def message_of(conn: apsw.Connection, channel: str, platform_id: str, platform_message_id: str) -> str | None:
    """The platform's id of the message that this piece became a part of; None: it is no piece of an album."""
    of = {"channel": channel, "platform_id": platform_id, "message": platform_message_id}
    found: str | None = scalar(conn, FIRST, of)
    return found


PRUNE = """
    DELETE FROM albums
     WHERE id IN (SELECT id
                    FROM albums
                   WHERE created_at < :cutoff AND status = 'joined'
                   ORDER BY created_at
                   LIMIT :limit)
"""


def prune(conn: apsw.Connection, *, older_than_ms: int, limit: int) -> int:
    """Forget up to *limit* joined albums from before *older_than_ms*, with their pieces; how many."""
    conn.execute(PRUNE, {"cutoff": older_than_ms, "limit": limit})
    return conn.changes()
