"""Deadlines of what agents hand over: without an answer by then, the agent that asked is woken, once.

The wake is a planned message in the session that asked, like a task for one instant, and ``dispatch`` takes it when it
is due. The answer cancels it, in the same transaction. So it survives whatever the rows survive.

What the agent says then goes where its words about the answer would have gone.
"""

import apsw

from shared.core import content
from shared.core.content import MessageContent
from shared.core.errors import WrongState
from shared.db.queue import messages, sessions
from shared.db.queue.message_row import Message
from shared.db.queue.messages import NewMessage

SHORTEST_MS, LONGEST_MS = 10_000, 30 * 24 * 60 * 60 * 1000
DIRECTED = "Directed to you:\n"  # before what one teammate reads alone
_QUOTED = 300
_UNITS = (("h", 3_600_000), ("min", 60_000), ("s", 1000))


def checked(within_ms: int | None) -> int | None:
    """The duration.

    Raises:
        WrongState: it is too short or too long.
    """
    if within_ms is not None and not SHORTEST_MS <= within_ms <= LONGEST_MS:
        raise WrongState("a deadline is from 10 s to 30 days away")
    return within_ms


def plan(
    conn: apsw.Connection,
    sender: str,
    recipient: str,
    body: str,
    carried: MessageContent,
    *,
    cause: Message | None,
    within_ms: int,
    now_ms: int,
) -> int:
    """Plan the wake of agent *sender*, which hands *body* over to *recipient*; its row.

    Args:
        carried: the content of what is handed over.
        cause: the message in whose turn this is.
    """
    behalf = carried.get("behalf")
    kept: MessageContent = {"hops": carried["hops"], "is_answer": True}
    if "origin" in carried:
        kept["origin"] = carried["origin"]
    if behalf:
        kept["behalf"] = behalf
    session = sessions.ensure(conn, sender, None, None, now_ms=now_ms) if cause is None else cause.session_id
    wake = NewMessage(
        id_prefix="internal",
        channel="internal",
        # where the answer would be, so that the two can share a turn
        chat_id=behalf["chat_id"] if behalf else None,
        platform_id=recipient,
        thread_id=behalf["thread_id"] if behalf else None,
        sender="postroom",
        message=_sentence(recipient, body, within_ms),
        content=content.encode(kept),
        agent=sender,
        session_id=session,
        kind="system",
        conversation_id=cause.conversation_id if cause is not None else None,
        process_after=now_ms + within_ms,
    )
    row = messages.enqueue(conn, wake, now_ms=now_ms)
    assert row is not None  # noqa: S101 - only a platform's event can be stored already
    return row


def _sentence(recipient: str, body: str, within_ms: int) -> str:
    quoted = quote(body, _QUOTED)
    return (
        f"Agent {recipient} has not answered within {in_words(within_ms)} what you handed over: “{quoted}” "
        "list_team shows what it does now. Its answer may still come. Decide how to continue."
    )


def quote(body: str, most: int) -> str:
    """The beginning of what was handed over, on one line; without what others read too. Pure."""
    return " ".join(body.rpartition(DIRECTED)[2].split())[:most]


def answered(conn: apsw.Connection, question: Message, *, now_ms: int) -> None:
    """The question has its answer: the agent that asked is not woken any more."""
    wake = question.content.get("deadline")
    if wake is not None:
        messages.cancel_waiting(conn, wake, reason="it was answered in time", now_ms=now_ms)


def in_words(duration_ms: int) -> str:
    """Such as ``1 h 30 min``. Pure."""
    said, left = [], duration_ms
    for unit, unit_ms in _UNITS:
        count, left = divmod(left, unit_ms)
        if count:
            said.append(f"{count} {unit}")
    return " ".join(said[:2]) or "0 s"
