"""A person has agents forget what they said: lines of memory, the history, and what a program keeps of its session.

The newest lines go at once, so that no turn reads them; older ones, which only a search finds, go with the next sweeps.
A turn that runs meanwhile, and messages that wait, are not touched. A program goes on in a fresh session of its own,
which is given what is left of the history.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import apsw

from shared.core import ids
from shared.db.queue import agent_messages, forgotten_people, sessions
from shared.db.queue.agent_messages import AgentMessage
from shared.db.queue.forgotten_people import DeletedLines, ForgottenPerson
from shared.db.roster import memory_lines

AT_ONCE = 5000  # of the newest lines of the agent: those that turns read by themselves are among them
NOTE = "What a person had said here was deleted, because they asked for it."
_SENDER = "postroom"


class ForgottenCounts(NamedTuple):
    """How many lines were deleted; *goes_on*: sweep looks through older lines of the history."""

    remembered: int = 0
    said: int = 0
    goes_on: bool = False


def forget(
    conn: apsw.Connection,
    agents: Iterable[str],
    channel: str,
    sender_id: str,
    *,
    at_once: int = AT_ONCE,
    now_ms: int,
) -> ForgottenCounts:
    """Delete what these agents keep of the person's messages and of their own answers to them."""
    total = ForgottenCounts()
    for agent in agents:
        remembered = memory_lines.delete_of_person(conn, channel, sender_id, agent=agent)
        found = forgotten_people.delete_slice(conn, forgotten_people.of(agent, channel, sender_id), limit=at_once)
        if found.next is not None:
            forgotten_people.put_off(conn, found.next)
        _begin_anew(conn, agent, found, now_ms=now_ms)
        total = ForgottenCounts(
            total.remembered + remembered,
            total.said + len(found.lines),
            total.goes_on or found.next is not None,
        )
    return total


def forget_older(conn: apsw.Connection, place: Any, limit: int) -> tuple[int, Any]:
    """A batch of ``sweep``: the lines of one person among so many older ones; how many, and whether there are more."""
    whom: ForgottenPerson | None = forgotten_people.take(conn)
    if whom is None:
        return 0, None
    found = forgotten_people.delete_slice(conn, whom, limit=limit)
    if found.next is not None:
        forgotten_people.put_off(conn, found.next)
    sessions.leave_continuations(conn, found.sessions)
    return len(found.lines), True


def _begin_anew(conn: apsw.Connection, agent: str, gone: DeletedLines, *, now_ms: int) -> None:
    """Drop what the program keeps of these sessions, and leave a note as the newest line, after the deleted ones."""
    sessions.leave_continuations(conn, gone.sessions)
    note = AgentMessage(agent, "user", "internal", _SENDER, "", NOTE, now_ms)
    notes = [note._replace(message_id=ids.new("internal"), session_id=session) for session in gone.sessions]
    agent_messages.append_after(conn, max((id_ for id_, _ in gone.lines), default=0), notes)
