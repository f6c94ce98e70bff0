"""What an agent is told in its next turn: context for its session, which starts no turn by itself.

::

    files of its answer that could not be sent     the person read a sentence about each
    an answer that could not be delivered          nobody read it; an operator who retries it takes the note back
    texts for other places that were not sent      ``teamwork.handoffs``
"""

from collections.abc import Sequence
from pathlib import PurePath

import apsw

from shared.core import content
from shared.core.content import MessageContent
from shared.db.queue import messages, responses, sessions
from shared.db.queue.messages import NewMessage
from shared.db.queue.responses import Response, ResponseVerdict
from shared.db.roster import destinations

_LONGEST = 20_000  # characters
_LONGEST_ANSWER = 500  # of it that the agent reads again
_SENDER = "postroom"


def leave(
    conn: apsw.Connection,
    text: str,
    *,
    agent: str | None,
    session_id: int | None,
    origin: str | None,
    about: MessageContent | None = None,
    now_ms: int,
) -> None:
    """Leave *text* for the agent's next turn in that session, or in its successor; nothing where there is none.

    Args:
        origin: what began the chain of what it is about, see ``core.hops``: who forgets a person finds the note by it.
        about: more of its content.
    """
    going_on = None if agent is None or session_id is None else sessions.going_on(conn, session_id, agent)
    if agent is None or going_on is None:
        return
    note = NewMessage(
        id_prefix="internal",
        channel="internal",
        platform_id=agent,
        sender=_SENDER,
        message=text[:_LONGEST],
        content=content.encode({**(about or {}), **({"origin": origin} if origin else {})}),
        agent=agent,
        session_id=going_on,
        kind="system",
        trigger=False,
    )
    messages.enqueue(conn, note, now_ms=now_ms)


def leave_unsent_files(
    conn: apsw.Connection,
    sentences: Sequence[str],
    *,
    agent: str | None,
    session_id: int | None,
    origin: str | None,
    now_ms: int,
) -> None:
    """Files of an answer were not sent, and its person read these *sentences* of ``part_plan.told``."""
    if sentences:
        text = "\n".join(("Files of your last answer did not reach the person.", *sentences))
        leave(conn, text, agent=agent, session_id=session_id, origin=origin, now_ms=now_ms)


def origin_of(response: Response) -> str:
    """What began the chain of the turn that said this."""
    return response.content.get("origin") or response.message_id


def leave_undelivered(conn: apsw.Connection, response: Response, verdict: ResponseVerdict, *, now_ms: int) -> None:
    """The response is dead, as the *verdict* says. Nothing where the agent said nothing, or it is not the agent's."""
    says_something = response.message.strip() or response.files or _reacts(response)
    if response.agent is None or response.content.get("ends_wait") or not says_something:
        return
    how = "perhaps did not reach" if verdict.failure == "outcome_unknown" else "did not reach"
    lines = [f"{_what(conn, response)} {how} the person: {verdict.reason}."]
    if sent := responses.sent_count(conn, response.id):
        lines.append(f"Only its beginning did ({sent} of its parts).")
    lines.append("It is not sent again, unless the operator does so.")
    if response.message.strip():
        lines.append(f"It was:\n{response.message[:_LONGEST_ANSWER]}")
    if response.files:
        lines.append(f"Its files: {', '.join(map(_name, response.files))}")
    leave(
        conn,
        "\n".join(lines),
        agent=response.agent,
        session_id=response.session_id,
        origin=origin_of(response),
        about={"undelivered": response.id},
        now_ms=now_ms,
    )


def _reacts(response: Response) -> bool:
    return "reaction" in response.content


def _what(conn: apsw.Connection, response: Response) -> str:
    if _reacts(response):
        return "Your reaction"
    if "edits" in response.content:
        return "Your change of a message"
    there = None
    if response.in_reply_to is None and response.agent is not None:
        there = destinations.find(conn, response.agent, chat=response.chat_id)
    return "Your answer" if there is None else f"Your message to “{there.name}”"


def _name(file: object) -> str:
    path = file.get("name") or file.get("path") if isinstance(file, dict) else file
    return PurePath(str(path)).name
