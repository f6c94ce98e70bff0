"""Chats: one conversation on one platform."""

from typing import Any, Literal, NamedTuple, Self, TypedDict, Unpack, get_args

import apsw

from shared.core.errors import ConfigInvalid, NotFound
from shared.core.policy import SENDER_POLICIES, SenderPolicy
from shared.db.engine.columns import listed
from shared.db.engine.connection import rows, scalar

Status = Literal["active", "inactive"]
STATUSES: tuple[str, ...] = get_args(Status)


class Chat(NamedTuple):
    """A row of ``chats``.

    Attributes:
        platform_id: the platform's id; a provisional one of ours while *opens_for* is set.
        sender_policy: how strangers are treated: ``strict``, ``request_approval`` or ``public``.
        refused_at: when an approver chose to ignore the chat, ms UTC, or None.
        opens_for: the platform's id of the person, while the platform has not opened this direct chat yet.
    """

    id: int
    channel: str
    platform_id: str
    is_group: bool
    status: str
    sender_policy: str
    refused_at: int | None
    name: str | None
    opens_for: str | None
    created_at: int

    @classmethod
    def of(cls, row: tuple[Any, ...]) -> Self:
        """From the columns in the order of the fields."""
        id_, channel, platform_id, is_group, *others = row
        return cls(id_, channel, platform_id, bool(is_group), *others)


class ChatChange(TypedDict, total=False):
    """The fields of a chat that can change; a missing field stays."""

    name: str | None
    sender_policy: str
    status: str
    refused_at: int | None


_COLUMNS = listed(Chat._fields)
_SELECT = f"""
    SELECT {_COLUMNS}
      FROM chats
"""


def find(conn: apsw.Connection, channel: str, platform_id: str) -> Chat | None:
    """The chat with this id of the platform, or None."""
    by_place = _SELECT + " WHERE channel = :channel AND platform_id = :platform_id"
    found = rows(conn, by_place, {"channel": channel, "platform_id": platform_id})
    return Chat.of(found[0]) if found else None


def channels(conn: apsw.Connection) -> list[str]:
    """The channels that have a chat."""
    return [str(name) for (name,) in rows(conn, "SELECT DISTINCT channel FROM chats")]


def get(conn: apsw.Connection, chat_id: int) -> Chat | None:
    """The chat, or None."""
    found = rows(conn, _SELECT + " WHERE id = :id", {"id": chat_id})
    return Chat.of(found[0]) if found else None


def ensure(
    conn: apsw.Connection,
    channel: str,
    platform_id: str,
    *,
    is_group: bool,
    name: str | None = None,
    sender_policy: SenderPolicy = "strict",
    opens_for: str | None = None,
    now_ms: int,
) -> Chat:
    """Find or create the chat; one that exists stays as it is."""
    known = find(conn, channel, platform_id)  # first: every message over REST asks, and nearly always for a known chat
    if known is not None:
        return known
    made = rows(
        conn,
        f"""
        INSERT INTO chats (channel, platform_id, name, is_group, sender_policy, opens_for, created_at, updated_at)
        VALUES (:channel, :platform_id, :name, :is_group, :sender_policy, :opens_for, :now, :now)
        ON CONFLICT (channel, platform_id) DO NOTHING
        RETURNING {_COLUMNS}
        """,
        {
            "channel": channel,
            "platform_id": platform_id,
            "name": name,
            "is_group": int(is_group),
            "sender_policy": sender_policy,
            "opens_for": opens_for,
            "now": now_ms,
        },
    )
    chat = Chat.of(made[0]) if made else find(conn, channel, platform_id)
    assert chat is not None  # noqa: S101 - it was inserted, or it conflicts with one that exists
    return chat


def update(conn: apsw.Connection, chat_id: int, *, now_ms: int, **changes: Unpack[ChatChange]) -> Chat:
    """Change the named fields and leave the others; the chat as it is now.

    Raises:
        NotFound: there is no such chat.
        ConfigInvalid: the policy or the status is unknown; the message lists the known ones.
    """
    _check_word("sender_policy", changes.get("sender_policy"), SENDER_POLICIES)
    _check_word("status", changes.get("status"), STATUSES)
    found = rows(
        conn,
        f"""
        UPDATE chats
           SET name = iif(:sets_name, :name, name),
               sender_policy = iif(:sets_sender_policy, :sender_policy, sender_policy),
               status = iif(:sets_status, :status, status),
               refused_at = iif(:sets_refused_at, :refused_at, refused_at),
               updated_at = :now
         WHERE id = :id
        RETURNING {_COLUMNS}
        """,
        {
            "id": chat_id,
            "now": now_ms,
            **{f"sets_{field}": field in changes for field in ChatChange.__annotations__},
            **{field: changes.get(field) for field in ChatChange.__annotations__},
        },
    )
    if not found:
        raise NotFound(f"there is no chat {chat_id}")
    return Chat.of(found[0])


def refuse(conn: apsw.Connection, chat_id: int, *, now_ms: int) -> bool:
    """Refuse the chat, so that no approver is asked about it again. False: an agent is wired there."""
    conn.execute(
        """
        UPDATE chats
           SET refused_at = ifnull(refused_at, :now), updated_at = :now
         WHERE id = :id AND NOT EXISTS (SELECT 1 FROM wirings WHERE chat_id = :id)
        """,
        {"id": chat_id, "now": now_ms},
    )
    return conn.changes() == 1


def _check_word(field: str, word: str | None, known: tuple[str, ...]) -> None:
    if word is not None and word not in known:
        raise ConfigInvalid(f"{field} {word!r} of a chat is none of {', '.join(known)}")


def reopen(conn: apsw.Connection, chat: Chat, sender_id: str, *, now_ms: int) -> Chat:
    """Mark a direct chat whose platform id is no longer known as one that the platform is yet to open."""
    conn.execute(
        """
        UPDATE chats
           SET status = 'active', opens_for = :sender_id, updated_at = :now
         WHERE id = :id AND opens_for IS NULL
        """,
        {"id": chat.id, "sender_id": sender_id, "now": now_ms},
    )
    return chat._replace(status="active", opens_for=sender_id)


def pause_sending(conn: apsw.Connection, chat_id: int, *, until_ms: int, now_ms: int) -> None:
    """Send nothing to the chat until then, as the platform asked."""
    conn.execute("UPDATE chats SET not_before = ?, held_at = ? WHERE id = ?", (until_ms, now_ms, chat_id))


def set_status(conn: apsw.Connection, channel: str, platform_id: str, status: str, *, now_ms: int) -> bool:
    """``inactive`` when the bot was blocked or removed, ``active`` when it is back. False: there is no such chat."""
    conn.execute(
        "UPDATE chats SET status = :status, updated_at = :now WHERE channel = :channel AND platform_id = :platform_id",
        {"status": status, "now": now_ms, "channel": channel, "platform_id": platform_id},
    )
    return conn.changes() == 1


def rename(conn: apsw.Connection, chat_id: int, title: str, *, now_ms: int) -> None:
    """Take over the group's new title. Destinations keep their names, because agents send by them."""
    conn.execute(
        "UPDATE chats SET name = :title, updated_at = :now WHERE id = :id",
        {"title": title, "now": now_ms, "id": chat_id},
    )


COUNT_OPEN = """
    SELECT (SELECT count(*)
              FROM messages
             WHERE trigger = 1 AND (status = 'pending' OR status = 'processing') AND chat_id = :chat)
         + (SELECT count(*)
              FROM messages
             WHERE (status = 'paused' OR status = 'cancelled') AND status = 'paused' AND chat_id = :chat)
         + (SELECT count(*)
              FROM responses
             WHERE channel = (SELECT channel FROM chats WHERE id = :chat) AND chat_id = :chat
               AND (status = 'pending' OR status = 'delivering'))
         + (SELECT count(*)
              FROM responses
             WHERE series_id IS NOT NULL AND (status = 'pending' OR status = 'delivering' OR status = 'paused')
               AND status = 'paused' AND chat_id = :chat)
"""
SPANS = """
    SELECT ifnull((SELECT max(id) FROM messages), 0) - ifnull((SELECT min(id) FROM messages), 0)
         + ifnull((SELECT max(id) FROM responses), 0) - ifnull((SELECT min(id) FROM responses), 0)
"""
_MOST_LOOKED_AT = 50_000  # rows: no index covers all rows of a chat, and the foreign keys' checks scan them once more


def count_open(conn: apsw.Connection, chat_id: int) -> int:
    """How many messages and responses of the chat are pending, in progress or paused; context is not counted."""
    count: int = scalar(conn, COUNT_OPEN, {"chat": chat_id})
    return count


def is_unused(conn: apsw.Connection, chat_id: int) -> bool:
    """Whether the chat has no message and no response. False too where a scan would take long."""
    of = {"chat": chat_id}
    if scalar(conn, "SELECT EXISTS (SELECT 1 FROM sessions WHERE chat_id = :chat)", of):
        return False
    if scalar(conn, SPANS) > _MOST_LOOKED_AT:
        return False
    is_named = "SELECT EXISTS (SELECT 1 FROM {} WHERE chat_id = :chat)"
    return not any(scalar(conn, is_named.format(table), of) for table in ("messages", "responses"))


def retire(conn: apsw.Connection, chat_id: int, *, now_ms: int) -> None:
    """Make the chat inactive and refused: without wirings, destinations, direct users and alerts."""
    for table in ("wirings", "destinations", "user_dms", "alert_routes"):
        column = "target_chat" if table == "destinations" else "chat_id"
        conn.execute(f"DELETE FROM {table} WHERE {column} = :chat", {"chat": chat_id})
    update(conn, chat_id, status="inactive", refused_at=now_ms, now_ms=now_ms)


def delete(conn: apsw.Connection, chat_id: int) -> None:
    """Delete an unused chat; approvals that ended lose their reference to it."""
    conn.execute("UPDATE approvals SET chat_id = NULL WHERE chat_id = :id AND status <> 'pending'", {"id": chat_id})
    conn.execute("DELETE FROM chats WHERE id = :id", {"id": chat_id})


def move(conn: apsw.Connection, channel: str, old: str, new: str, *, now_ms: int) -> Chat | None:
    """Give the chat its new platform id, with every open row. None: no chat has the id *old*.

    If a chat with the id *new* exists, the two are merged into it: it gets the wirings, sessions and settings of the
    old chat, which becomes inactive. The platform's ids of messages in the old chat name nothing in the new one, or
    another message: open rows lose them.
    """
    source, target = find(conn, channel, old), find(conn, channel, new)
    if source is None and target is not None:  # it has moved; the answer of a turn that ran then still names the old id
        conn.execute(REDIRECT_LATE, {"to": target.id, "channel": channel, "old": old, "new": new})
    if source is None or old == new:
        return source
    if target is None:
        conn.execute(
            """
            UPDATE chats
               SET platform_id = :new, opens_for = NULL, updated_at = :now
             WHERE id = :id AND platform_id = :old
            """,
            {"new": new, "now": now_ms, "id": source.id, "old": old},
        )
        target = source._replace(platform_id=new, opens_for=None)
    else:
        target = _merge(conn, source, target, now_ms=now_ms)
    is_void = source.opens_for is None  # else nobody has written there yet
    for statement in REDIRECT:
        moved = {"from": source.id, "to": target.id, "channel": channel, "new": new, "void": is_void}
        conn.execute(statement, moved)
    conn.execute(REDIRECT_HELD, {"to": target.id, "new": new})
    for statement in REDIRECT_ALBUMS:
        conn.execute(statement, {"channel": channel, "old": old, "new": new})
    return target


# Rows that are open, paused or could be retried; a partial index answers each statement.
REDIRECT = (
    """
    UPDATE messages
       SET chat_id = :to, platform_id = :new, platform_message_id = iif(:void, NULL, platform_message_id)
     WHERE trigger = 1 AND (status = 'pending' OR status = 'processing') AND chat_id = :from
    """,
    """
    UPDATE messages
       SET chat_id = :to, platform_id = :new, platform_message_id = iif(:void, NULL, platform_message_id)
     WHERE trigger = 0 AND (status = 'pending' OR status = 'processing') AND chat_id = :from
    """,
    """
    UPDATE messages
       SET chat_id = :to, platform_id = :new, platform_message_id = iif(:void, NULL, platform_message_id)
     WHERE (status = 'paused' OR status = 'cancelled') AND status = 'paused' AND chat_id = :from
    """,
    """
    UPDATE messages
       SET chat_id = :to, platform_id = :new, platform_message_id = iif(:void, NULL, platform_message_id)
     WHERE status = 'dead' AND chat_id = :from
    """,
    """
    UPDATE responses
       SET chat_id = :to, platform_id = :new,
           content = iif(:void, json_remove(content, '$.reply_to', '$.edits'), content)
     WHERE channel = :channel AND chat_id = :from AND (status = 'pending' OR status = 'delivering')
    """,
    """
    UPDATE responses
       SET chat_id = :to, platform_id = :new,
           content = iif(:void, json_remove(content, '$.reply_to', '$.edits'), content)
     WHERE status = 'dead' AND chat_id = :from
    """,
    """
    UPDATE responses
       SET chat_id = :to, platform_id = :new,
           content = iif(:void, json_remove(content, '$.reply_to', '$.edits'), content)
     WHERE series_id IS NOT NULL AND (status = 'pending' OR status = 'delivering' OR status = 'paused')
       AND status = 'paused' AND chat_id = :from
    """,
)

REDIRECT_LATE = """
    UPDATE responses
       SET platform_id = :new, content = json_remove(content, '$.reply_to', '$.edits')
     WHERE channel = :channel AND chat_id = :to AND (status = 'pending' OR status = 'delivering')
       AND platform_id = :old
"""

# Pieces that wait for the others of their album.
REDIRECT_ALBUMS = (
    """
    UPDATE album_pieces
       SET event = json_set(event, '$.platform_id', :new)
     WHERE album_id IN (SELECT id
                          FROM albums
                         WHERE status = 'gathering' AND channel = :channel AND platform_id = :old)
       AND event IS NOT NULL
    """,
    """
    UPDATE OR IGNORE albums
       SET platform_id = :new
     WHERE status = 'gathering' AND channel = :channel AND platform_id = :old
    """,
)

# Held events: the event itself names its chat, and is stored for its agent there.
REDIRECT_HELD = """
    UPDATE held
       SET event = json_set(event, '$.platform_id', :new)
     WHERE approval_id IN (SELECT id
                             FROM approvals INDEXED BY approvals_of_chat
                            WHERE status = 'pending' AND chat_id = :to)
"""

_MERGE = (
    # Of two sessions with the same key the old chat's stays active; open messages of the other still run in it.
    """
    UPDATE sessions
       SET status = 'closed', closed_at = :now
     WHERE chat_id = :to AND status = 'active'
       AND EXISTS (SELECT 1
                     FROM sessions o
                    WHERE o.chat_id = :from AND o.status = 'active' AND o.agent = sessions.agent
                      AND ifnull(o.thread_id, '') = ifnull(sessions.thread_id, '')
                      AND ifnull(o.private_to, '') = ifnull(sessions.private_to, '')
                      AND ifnull(o.series_id, '') = ifnull(sessions.series_id, ''))
    """,
    *(f"UPDATE {table} SET chat_id = :to WHERE chat_id = :from" for table in ("sessions", "user_dms", "alert_routes")),
    "DELETE FROM wirings WHERE chat_id = :to AND agent IN (SELECT agent FROM wirings WHERE chat_id = :from)",
    "UPDATE wirings SET chat_id = :to WHERE chat_id = :from",
    "UPDATE OR IGNORE destinations SET target_chat = :to WHERE target_chat = :from",
    "DELETE FROM destinations WHERE target_chat = :from",
    "UPDATE approvals SET chat_id = :to WHERE chat_id = :from AND status = 'pending'",
    "UPDATE chats SET status = 'inactive', opens_for = NULL, updated_at = :now WHERE id = :from",
)


def _merge(conn: apsw.Connection, source: Chat, target: Chat, *, now_ms: int) -> Chat:
    """Move everything from *source* to *target*; *target* as it is then."""
    for statement in _MERGE:
        conn.execute(statement, {"from": source.id, "to": target.id, "now": now_ms})
    if source.opens_for is not None:  # a provisional chat that was never opened has no settings of its own
        return target
    kept: ChatChange = {
        "sender_policy": source.sender_policy,
        "refused_at": source.refused_at,
        "name": source.name or target.name,
    }
    return update(conn, target.id, now_ms=now_ms, **kept)
