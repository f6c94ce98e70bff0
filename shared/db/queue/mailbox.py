"""The rows behind the mailboxes: messages between agents, from the operator, and in the teams' rooms.

They are rows of ``messages`` on the channel ``internal``, or ``chatroom`` for a room.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw

from shared.core import content
from shared.db.engine.connection import rows, scalar
from shared.db.queue import agent_messages, events
from shared.db.queue.agent_messages import AgentMessage
from shared.db.queue.message_row import COLUMNS, Message, readable_message_of


class MailboxMessage(NamedTuple):
    """A message in a mailbox: what a turn has of it, and the columns that only a mailbox shows.

    Attributes:
        thread_root: the row that began the thread; None: this message began it.
        updated_at: of a completed message, the instant of its delivery, in ms.
    """

    message: Message
    msg_type: str
    urgency: str
    reply_to: int | None
    thread_root: int | None
    status: str
    updated_at: int

    @property
    def root(self) -> int:
        """The row that began the thread."""
        return self.thread_root or self.message.id


_OWN_COLUMNS = MailboxMessage._fields[1:]
_COLUMNS = ", ".join((*_OWN_COLUMNS, COLUMNS))


def _mailbox_message(row: Sequence[Any]) -> MailboxMessage:
    own, message = row[: len(_OWN_COLUMNS)], row[len(_OWN_COLUMNS) :]
    return MailboxMessage(readable_message_of(message), *own)


_GET = f"SELECT {_COLUMNS} FROM messages WHERE id = :id"


def get(conn: apsw.Connection, row_id: int) -> MailboxMessage | None:
    """The message in this row, or None."""
    found = rows(conn, _GET, {"id": row_id})
    return _mailbox_message(found[0]) if found else None


_PASSED = "(channel = 'internal' OR channel = 'chatroom') AND files <> '[]'"
# What asks for a turn, and what others answered in rooms, which the agent reads with its next turn there.
WAITING_BYTES = f"""
    SELECT sum((SELECT sum(file.value ->> '$.size') FROM json_each(files) AS file))
      FROM (SELECT files
              FROM messages INDEXED BY messages_open
             WHERE agent = :agent AND trigger = 1 AND (status = 'pending' OR status = 'processing') AND {_PASSED}
             UNION ALL
            SELECT files
              FROM messages INDEXED BY messages_context
             WHERE session_id IN (SELECT s.id
                                    FROM chats c
                                    JOIN sessions s ON s.chat_id = c.id
                                   WHERE c.channel = 'chatroom' AND s.agent = :agent)
               AND trigger = 0 AND (status = 'pending' OR status = 'processing') AND {_PASSED})
"""


def waiting_bytes(conn: apsw.Connection, agent: str) -> int:
    """How many bytes the files have that other agents passed on to *agent*, and that no turn has had."""
    return scalar(conn, WAITING_BYTES, {"agent": agent}) or 0


# By the indexes of open and of paused messages, so that the finished ones are not read.
WAITING_FILES = f"""
    SELECT files
      FROM messages INDEXED BY messages_open
     WHERE trigger = 1 AND (status = 'pending' OR status = 'processing') AND {_PASSED}
     UNION ALL
    SELECT files
      FROM messages INDEXED BY messages_context
     WHERE trigger = 0 AND (status = 'pending' OR status = 'processing') AND {_PASSED}
     UNION ALL
    SELECT files
      FROM messages INDEXED BY messages_resting
     WHERE (status = 'paused' OR status = 'cancelled') AND status = 'paused' AND {_PASSED}
"""


def waiting_files(conn: apsw.Connection) -> set[str]:
    """The ``file_id`` of each file that agents passed on, and whose message waits or runs."""
    found = [each for (files,) in rows(conn, WAITING_FILES) for each in content.readable_list(files)]
    return {str(each.get("file_id")) for each in found if isinstance(each, dict)}


CONSUME = f"""
    UPDATE messages
       SET status = 'completed', last_error = NULL, failure = NULL, updated_at = :now
     WHERE id IN (SELECT id
                    FROM messages
                   WHERE agent = :agent AND trigger = 1 AND status = 'pending'
                     AND (channel = 'internal' OR channel = 'chatroom')
                     AND (process_after IS NULL OR process_after <= :now OR failure IS NOT NULL) AND files = '[]'
                   ORDER BY id
                   LIMIT :limit)
    RETURNING {_COLUMNS}
"""
_MOST = 1000

CONSUME_OF_SESSION = f"""
    UPDATE messages
       SET status = 'completed', last_error = NULL, failure = NULL, updated_at = :now
     WHERE id IN (SELECT id
                    FROM messages
                   WHERE session_id = :session AND agent = :agent AND trigger = 1 AND status = 'pending'
                     AND (channel = 'internal' OR channel = 'chatroom')
                     AND (process_after IS NULL OR process_after <= :now OR failure IS NOT NULL) AND files = '[]'
                   ORDER BY id
                   LIMIT :limit)
    RETURNING {_COLUMNS}
"""

PENDING = f"""
    SELECT {_COLUMNS}
      FROM messages
     WHERE agent = :agent AND trigger = 1 AND status = 'pending'
       AND (channel = 'internal' OR channel = 'chatroom')
       AND (process_after IS NULL OR process_after <= :now OR failure IS NOT NULL) AND files = '[]'
     ORDER BY id
     LIMIT :limit
"""


def pending(conn: apsw.Connection, agent: str, *, now_ms: int, limit: int = _MOST) -> list[MailboxMessage]:
    """The messages that ``consume`` would take out of the agent's mailbox, oldest first; they stay there."""
    found = rows(conn, PENDING, {"agent": agent, "now": now_ms, "limit": limit})
    return [_mailbox_message(row) for row in found]


def consume(conn: apsw.Connection, agent: str, *, now_ms: int, limit: int = _MOST) -> list[MailboxMessage]:
    """Take the pending messages out of the agent's mailbox, oldest first: they count as read, and get no turn.

    A message that a turn holds stays with the turn; one that is planned for later is not in the mailbox yet; one with
    files needs a turn, which writes them into the inbox. One
    statement reads and marks, so no two readers get the same message.
    """
    return _read(conn, rows(conn, CONSUME, {"agent": agent, "now": now_ms, "limit": limit}), now_ms)


def consume_of_session(
    conn: apsw.Connection, agent: str, session_id: int, *, now_ms: int, limit: int = _MOST
) -> list[MailboxMessage]:
    """As ``consume``, only of this session: an answer that waits in another conversation is for its person."""
    values = {"agent": agent, "session": session_id, "now": now_ms, "limit": limit}
    return _read(conn, rows(conn, CONSUME_OF_SESSION, values), now_ms)


def _read(conn: apsw.Connection, consumed: Sequence[Sequence[Any]], now_ms: int) -> list[MailboxMessage]:
    """The consumed messages, oldest first, with the lines of history and the events that they leave."""
    taken = [_mailbox_message(row) for row in consumed]
    taken.sort(key=lambda each: each.message.id)
    agent_messages.append(conn, [_history_line(each.message, now_ms) for each in taken])
    for each in taken:
        events.append_about(conn, "message_consumed", each.message, now_ms=now_ms)
    return taken


def _history_line(read: Message, now_ms: int) -> AgentMessage:
    return AgentMessage(
        read.agent,
        "user",
        read.channel,
        read.sender,
        read.message_id,
        read.message,
        now_ms,
        read.session_id,
        read.sender_id,
    )


class UrgentMessage(NamedTuple):
    """An urgent message that is pending."""

    id: int
    recipient: str


# +id: else SQLite walks the whole table in the order of its ids, looking for the few.
POLL_URGENT = """
    SELECT id, agent
      FROM messages
     WHERE urgency = 'urgent' AND status = 'pending'
     ORDER BY +id
     LIMIT :limit
"""


def poll_urgent(conn: apsw.Connection) -> list[UrgentMessage]:
    """The urgent messages that no turn has taken, oldest first."""
    return [UrgentMessage._make(row) for row in rows(conn, POLL_URGENT, {"limit": _MOST})]


THREAD = f"""
    SELECT {_COLUMNS}
      FROM messages
     WHERE id = :root OR thread_root = :root
     ORDER BY id
     LIMIT :limit
"""


def thread(conn: apsw.Connection, root: int) -> list[MailboxMessage]:
    """The message in row *root* and the replies of its thread, in order."""
    return [_mailbox_message(row) for row in rows(conn, THREAD, {"root": root, "limit": _MOST})]
