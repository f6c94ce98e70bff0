"""Mail: the messages that agents, and whoever looks after them, leave each other. Rows of ``messages`` like all others.

Mail is what stands on the channel ``internal``, or in a room (``chatroom``).
"""

from typing import Any, NamedTuple

import apsw

from shared.db.engine.connection import rows
from shared.db.queue import agent_messages, events
from shared.db.queue.agent_messages import AgentMessage
from shared.db.queue.message_row import COLUMNS, WIDTH, Message, message_of


class MailboxMessage(NamedTuple):
    """A message as it lies in a mailbox: the row, and what no turn needs of it.

    *thread_root* is None where the message begins a thread itself; *updated_at* of a completed one is the instant of
    its delivery.
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
        """The message that began the thread."""
        return self.thread_root or self.message.id


_LETTER = f"{COLUMNS}, msg_type, urgency, reply_to, thread_root, status, updated_at"  # in the order of Letter


def _letter(row: tuple[Any, ...]) -> MailboxMessage:
    return MailboxMessage(message_of(row), *row[WIDTH:])


def get(conn: apsw.Connection, row_id: int) -> MailboxMessage | None:
    """The message in this row, or None."""
    found = rows(
        conn,
        f"""
        SELECT {_LETTER}
          FROM messages
         WHERE id = :id
        """,
        {"id": row_id},
    )
    return _letter(found[0]) if found else None


CONSUME = f"""
    UPDATE messages
       SET status = 'completed', last_error = NULL, failure = NULL, updated_at = :now
     WHERE id IN (SELECT id
                    FROM messages
                   WHERE agent = :agent AND trigger = 1 AND status = 'pending'
                     AND (channel = 'internal' OR channel = 'chatroom')
                     AND (process_after IS NULL OR process_after <= :now OR failure IS NOT NULL)
                   ORDER BY id
                   LIMIT :limit)
    RETURNING {_LETTER}
"""
_MOST = 1000

WAITING = f"""
    SELECT {_LETTER}
      FROM messages
     WHERE agent = :agent AND trigger = 1 AND status = 'pending'
       AND (channel = 'internal' OR channel = 'chatroom')
       AND (process_after IS NULL OR process_after <= :now OR failure IS NOT NULL)
     ORDER BY id
     LIMIT :limit
"""


def waiting(conn: apsw.Connection, agent: str, *, now_ms: int, limit: int = _MOST) -> list[MailboxMessage]:
    """What ``consume`` would take out of the agent's mailbox, which stays there, oldest first."""
    found = rows(conn, WAITING, {"agent": agent, "now": now_ms, "limit": limit})
    return [_letter(row) for row in found]


def consume(conn: apsw.Connection, agent: str, *, now_ms: int, limit: int = _MOST) -> list[MailboxMessage]:
    """Take the agent's waiting mail out of its mailbox, oldest first: it is read, and no turn will ever have it.

    What a turn holds stays with that turn, and what is planned for later is not there yet. Reading and marking are one
    statement, so whoever else reads gets other mail.
    """
    taken = rows(conn, CONSUME, {"agent": agent, "now": now_ms, "limit": limit})
    found = [_letter(row) for row in sorted(taken, key=lambda row: row[0])]
    agent_messages.append(conn, [_line(letter.message, now_ms) for letter in found])
    for letter in found:
        events.append(
            conn,
            "message_consumed",
            now_ms=now_ms,
            message_id=letter.message.message_id,
            agent=agent,
            channel=letter.message.channel,
            session_id=letter.message.session_id,
        )
    return found


def _line(read: Message, now_ms: int) -> AgentMessage:
    return AgentMessage(read.agent, "user", read.channel, read.sender, read.message_id, read.message, now_ms)


class UrgentMessage(NamedTuple):
    """An urgent message that waits."""

    id: int
    recipient: str


# +id: else the whole table would be walked in the order of its ids, looking for the few.
POLL_URGENT = """
    SELECT id, agent
      FROM messages
     WHERE urgency = 'urgent' AND status = 'pending'
     ORDER BY +id
     LIMIT :limit
"""


def poll_urgent(conn: apsw.Connection, *, limit: int = _MOST) -> list[UrgentMessage]:
    """What is urgent and was not delivered, oldest first."""
    return [UrgentMessage._make(row) for row in rows(conn, POLL_URGENT, {"limit": limit})]


THREAD = f"""
    SELECT {_LETTER}
      FROM messages
     WHERE id = :root OR thread_root = :root
     ORDER BY id
     LIMIT :limit
"""


def thread(conn: apsw.Connection, root: int, *, limit: int = _MOST) -> list[MailboxMessage]:
    """The message *root* and what was said to it, in order."""
    return [_letter(row) for row in rows(conn, THREAD, {"root": root, "limit": limit})]
