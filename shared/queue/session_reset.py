"""A fresh start: a session is closed, and a successor replaces it.

::

    reset    closed ──────────────> fresh: no continuation and no history
    replay   closed ── the same messages again ──> fresh: answers them all again

The closed session keeps its messages, answers and continuation, to look at and to compare with. Its running turn ends
there, and its pending messages run there, with the context in which they were written. *Planned* messages move to the
successor, because they belong to the chat and not to the conversation.
"""

from collections.abc import Sequence

import apsw

from shared.core.errors import NotFound
from shared.db.queue import events, replays, sessions
from shared.db.queue.events import EventData
from shared.db.queue.sessions import Session

MOST_REPLAYED = 1000  # in one transaction, which delays all other writers for some 20 ms


def reset(conn: apsw.Connection, session_id: int, *, now_ms: int) -> int:
    """Close the active session in this row; the row of its fresh successor.

    Raises:
        NotFound: no such session.
        WrongState: it is already closed.
    """
    old = sessions.close(conn, session_id, now_ms=now_ms)
    new = sessions.succeed(conn, old, now_ms=now_ms)
    _hand_over(conn, old, new, now_ms=now_ms)
    _record(conn, "session_reset", old, new, {}, now_ms=now_ms)
    return new


def close_ended(conn: apsw.Connection, *, idle_since_ms: int, limit: int, now_ms: int) -> int:
    """Close the sessions of schedules that are over and rest since then, without a successor; how many, of *limit*."""
    closed = sessions.close_of_ended_series(conn, idle_since_ms=idle_since_ms, limit=limit, now_ms=now_ms)
    for each in closed:
        replays.leave_context(conn, each, now_ms=now_ms)
    return len(closed)


def clear(
    conn: apsw.Connection,
    agent: str,
    chat_id: int | None,
    thread_id: str | None,
    *,
    private_to: str | None = None,
    now_ms: int,
) -> int | None:
    """Reset the agent's session with this key; the row of the fresh session, None if there was none."""
    found = sessions.active(conn, agent, chat_id, thread_id, private_to=private_to)
    return None if found is None else reset(conn, found, now_ms=now_ms)


def replay(conn: apsw.Connection, session_id: int, message_rows: Sequence[int], *, now_ms: int) -> tuple[int, int]:
    """Give a fresh session the messages of another again, in order, and make it the active one.

    The active session of the key is closed. The new answers go to the places of the old ones.

    Args:
        message_rows: the rows of the messages, at most ``MOST_REPLAYED``. ``replays.find_messages`` finds them before
            the transaction, because that may take long. Rows pruned since, or of another session, are left out.

    Returns:
        The row of the fresh session, and the number of its messages.

    Raises:
        NotFound: no such session.
    """
    old = sessions.get(conn, session_id)
    if old is None:
        raise NotFound(f"there is no session {session_id}")
    active = sessions.going_on(conn, old.id, old.agent)
    if active is not None:
        sessions.close(conn, active, now_ms=now_ms)
    new = sessions.succeed(conn, old, replays=old.id, now_ms=now_ms)
    if active is not None:
        _hand_over(conn, sessions.known(conn, active), new, now_ms=now_ms)
    given = replays.copy(conn, message_rows[:MOST_REPLAYED], from_session=old.id, to_session=new, now_ms=now_ms)
    _record(conn, "session_replayed", old, new, {"messages": given}, now_ms=now_ms)
    return new, given


def _hand_over(conn: apsw.Connection, old: Session, new: int, *, now_ms: int) -> None:
    replays.move_planned(conn, old, new, now_ms=now_ms)
    replays.leave_context(conn, old, now_ms=now_ms)


def _record(conn: apsw.Connection, type_: str, old: Session, new: int, more: EventData, *, now_ms: int) -> None:
    fresh = sessions.known(conn, new)
    data: EventData = {"session": fresh.session_id, "before": old.session_id, **more}
    events.append(conn, type_, now_ms=now_ms, agent=old.agent, session_id=new, data=data)
