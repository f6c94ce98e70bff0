"""A fresh start: a session is closed, and another one goes on in its place.

::

    reset    closed ──────────────> fresh: no continuation, nothing of what was said
    replay   closed ── its messages, once more ──> fresh: answers them all again

The closed session keeps its messages, answers and continuation, to look at and to compare with. A turn that runs there
ends there, and what waits there is run there, by what was known when it was written; what is *planned* (``schedule``)
moves, for it is of the chat and not of what was said in it.
"""

from collections.abc import Sequence

import apsw

from shared.core.errors import NotFound
from shared.db.queue import events, replays, sessions
from shared.db.queue.events import EventData
from shared.db.queue.sessions import Session

MOST_REPLAYED = 1000  # in one transaction, which holds up everybody who writes for some 20 ms


def reset(conn: apsw.Connection, session_id: int, *, now_ms: int) -> int:
    """The row of the fresh session that follows the active one in this row.

    Raises:
        NotFound: no such session.
        WrongState: it is closed already.
    """
    old = sessions.close(conn, session_id, now_ms=now_ms)
    new = sessions.succeed(conn, old, now_ms=now_ms)
    _hand_over(conn, old, new, now_ms=now_ms)
    _tell(conn, "session_reset", old, new, {}, now_ms=now_ms)
    return new


def clear(conn: apsw.Connection, agent: str, chat_id: int | None, thread_id: str | None, *, now_ms: int) -> int | None:
    """Reset what the agent remembers of this chat and thread; the fresh session's row, None if there is nothing yet."""
    found = sessions.active(conn, agent, chat_id, thread_id)
    return None if found is None else reset(conn, found, now_ms=now_ms)


def replay(conn: apsw.Connection, session_id: int, said: Sequence[int], *, now_ms: int) -> tuple[int, int]:
    """A fresh session is given the messages of another once more, in order, and becomes the one that goes on.

    Whichever session of the key is active is closed. The answers go to where the first ones went.

    Args:
        said: the rows of the messages, at most ``MOST_REPLAYED``, from ``replays.find_messages``; beforehand, because
            finding them may take long. Those that are pruned meanwhile, or are another session's, are left out.

    Returns:
        The fresh session's row, and how many messages it was given.

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
    given = replays.copy(conn, said[:MOST_REPLAYED], from_session=old.id, to_session=new, now_ms=now_ms)
    _tell(conn, "session_replayed", old, new, {"messages": given}, now_ms=now_ms)
    return new, given


def _hand_over(conn: apsw.Connection, old: Session, new: int, *, now_ms: int) -> None:
    replays.move_planned(conn, old, new, now_ms=now_ms)
    replays.leave_context(conn, old, now_ms=now_ms)


def _tell(conn: apsw.Connection, type_: str, old: Session, new: int, more: EventData, *, now_ms: int) -> None:
    fresh = sessions.known(conn, new)
    data: EventData = {"session": fresh.session_id, "before": old.session_id, **more}
    events.append(conn, type_, now_ms=now_ms, agent=old.agent, session_id=new, data=data)
