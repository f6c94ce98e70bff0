"""What a message on the platform is here, that an edit, a deletion or a reaction names."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw

from shared.core import content
from shared.core.content import MessageContent, ResponseContent
from shared.db.engine.connection import rows, scalar
from shared.db.roster.wirings import SessionMode

SEARCHED = 20_000
"""Rows. No index holds the platforms' ids, because it would cost every message, and people change what they wrote
lately. What waits or runs is found however old it is."""


class Original(NamedTuple):
    """A message that an agent was given of it, as it is now.

    Attributes:
        session_mode: of a wiring that leads to its session.
    """

    id: int
    message_id: str
    agent: str
    session_id: int
    status: str
    trigger: bool
    thread_id: str | None
    sender: str
    sender_id: str | None
    message: str
    content: MessageContent
    files: str
    session_mode: SessionMode = "shared"

    @property
    def waits(self) -> bool:
        """Whether no turn has taken it yet."""
        return self.status in ("pending", "paused")


_COLUMNS = """
    id, message_id, agent, session_id, status, trigger, thread_id, sender, sender_id, message, content, files,
    (SELECT CASE WHEN s.chat_id IS NULL THEN 'agent-shared' WHEN s.thread_id IS NULL THEN 'shared' ELSE 'per-thread' END
       FROM sessions s
      WHERE s.id = messages.session_id)
"""
_NEWEST = f"""
    SELECT {_COLUMNS}
      FROM messages
     WHERE id > (SELECT max(id) FROM messages) - :searched
       AND platform_message_id = :message AND channel = :channel AND platform_id = :platform_id AND from_agent IS NULL
     ORDER BY id DESC
     LIMIT 100
"""  # noqa: S608 - columns of ours
OPEN = f"""
    SELECT {_COLUMNS}
      FROM messages INDEXED BY messages_open
     WHERE trigger = 1 AND (status = 'pending' OR status = 'processing')
       AND platform_message_id = :message AND channel = :channel AND platform_id = :platform_id AND from_agent IS NULL
     ORDER BY id DESC
     LIMIT 100
"""  # noqa: S608 - columns of ours


def find(conn: apsw.Connection, channel: str, platform_id: str, platform_message_id: str) -> list[Original]:
    """The messages of all agents, newest first."""
    of = {"channel": channel, "platform_id": platform_id, "message": platform_message_id}
    found = rows(conn, _NEWEST, {**of, "searched": SEARCHED}) or rows(conn, OPEN, of)
    return list(map(_original, found))


def _original(row: Sequence[Any]) -> Original:
    *fields, kept, files, mode = row
    found = Original._make([*fields, content.readable(kept), files, mode])
    return found._replace(trigger=bool(found.trigger))


_DROPPED = """
    SELECT reason
      FROM dropped
     WHERE id > (SELECT max(id) FROM dropped) - :searched
       AND platform_message_id = :message AND channel = :channel AND platform_id = :platform_id
     ORDER BY id DESC
     LIMIT 1
"""


def dropped_as(conn: apsw.Connection, channel: str, platform_id: str, platform_message_id: str) -> str | None:
    """Why the message was dropped last, or None."""
    of = {"channel": channel, "platform_id": platform_id, "message": platform_message_id, "searched": SEARCHED}
    found: str | None = scalar(conn, _DROPPED, of)
    return found


_NEWEST_NOT_SEARCHED = """
    SELECT created_at
      FROM messages
     WHERE id <= (SELECT max(id) FROM messages) - :searched
     ORDER BY id DESC
     LIMIT 1
"""


def searched_since(conn: apsw.Connection) -> int:
    """The instant in ms UTC after which ``find`` knows every message that is not pruned."""
    return scalar(conn, _NEWEST_NOT_SEARCHED, {"searched": SEARCHED}) or 0


class SaidBefore(NamedTuple):
    """A response that a message on the platform shows. *agent*: None where we said it ourselves."""

    id: int
    agent: str | None
    thread_id: str | None
    message: str
    content: ResponseContent


_RESPONSE = """
    SELECT id, agent, thread_id, message, content
      FROM responses
     WHERE id > ifnull((SELECT id FROM responses ORDER BY id DESC LIMIT 1 OFFSET :searched), 0) AND chat_id = :chat
       AND (platform_message_id = :message OR EXISTS (SELECT 1 FROM json_each(parts) WHERE value = :message)
            OR EXISTS (SELECT 1 FROM json_each(also) WHERE value = :message))
     ORDER BY id DESC
     LIMIT 1
"""


def response(conn: apsw.Connection, chat_id: int, platform_message_id: str) -> SaidBefore | None:
    """The newest response that this message on the platform is a part of, or None. A part may be a whole album."""
    found = rows(conn, _RESPONSE, {"chat": chat_id, "message": platform_message_id, "searched": SEARCHED})
    if not found:
        return None
    *fields, kept = found[0]
    return SaidBefore._make([*fields, content.readable(kept)])
