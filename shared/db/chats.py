"""Chats: one conversation place on one platform."""

from dataclasses import dataclass

import apsw

from shared.db.connection import rows


@dataclass(frozen=True, slots=True)
class Chat:
    """A row of ``chats``, as routing needs it."""

    id: int
    channel: str
    platform_id: str
    is_group: bool
    status: str


def find(conn: apsw.Connection, channel: str, platform_id: str) -> Chat | None:
    """The chat that the platform knows under *platform_id*, or None."""
    found = rows(
        conn,
        """
        SELECT id, channel, platform_id, is_group, status
          FROM chats
         WHERE channel = :channel AND platform_id = :platform_id
        """,
        {"channel": channel, "platform_id": platform_id},
    )
    if not found:
        return None
    id_, channel, platform_id, is_group, status = found[0]
    return Chat(id_, channel, platform_id, bool(is_group), status)


def ensure(
    conn: apsw.Connection, channel: str, platform_id: str, *, is_group: bool, name: str | None = None, now_ms: int
) -> Chat:
    """The chat, made if it is new."""
    known = find(conn, channel, platform_id)
    if known is not None:
        return known
    conn.execute(
        """
        INSERT INTO chats (channel, platform_id, name, is_group, created_at, updated_at)
        VALUES (:channel, :platform_id, :name, :is_group, :now, :now)
        """,
        {"channel": channel, "platform_id": platform_id, "name": name, "is_group": int(is_group), "now": now_ms},
    )
    return Chat(conn.last_insert_rowid(), channel, platform_id, is_group, "active")


def hold(conn: apsw.Connection, chat_id: int, *, until_ms: int) -> None:
    """The platform asked for silence in this chat."""
    conn.execute("UPDATE chats SET not_before = :until WHERE id = :id", {"until": until_ms, "id": chat_id})


def set_status(conn: apsw.Connection, channel: str, platform_id: str, status: str, *, now_ms: int) -> bool:
    """``inactive`` when the bot was blocked or removed, ``active`` when it is back. False: no such chat."""
    conn.execute(
        "UPDATE chats SET status = :status, updated_at = :now WHERE channel = :channel AND platform_id = :platform_id",
        {"status": status, "now": now_ms, "channel": channel, "platform_id": platform_id},
    )
    return conn.changes() == 1
