"""What an agent sends elsewhere by tags of its answer (``agents.answer_tags``), as a part of the turn's settlement.

::

    <message to="name">   a destination of the agent: a chat, or an agent      [@bob: …]   a member of one of its teams
    [#team: …]            the room of one of its teams

Nothing else is reachable. What can't be sent is not lost: the agent reads it again in its next turn, with the reason;
the person who asked gets a sentence, and an event is there for the operator.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import apsw

from shared.agents.answer_tags import HandOff, ToDestination, ToTeam, ToTeammates
from shared.channels import outgoing_files, registry
from shared.channels.base import OutgoingFile
from shared.core import content, hops, ids
from shared.core.errors import NotFound, WrongState
from shared.db.engine.connection import savepoint
from shared.db.queue import events, responses
from shared.db.queue.message_row import Message
from shared.db.queue.responses import NewResponse
from shared.db.roster import agents, chats, destinations, teams
from shared.queue import agent_notes
from shared.queue.teamwork import chain_ends, deadlines, mailbox, rooms
from shared.queue.teamwork.chains import MailLimits, MailRefused

_BETWEEN = f"\n\n------\n\n{deadlines.DIRECTED}"

_MOST = 50  # of one answer: they are sent in one transaction
_MOST_REFUSED = 500  # of these; no more fit in the agent's note
_MOST_SENTENCES = 5
_FORBIDDEN = "I can't write there"  # no more: the names of an agent's other chats are not for everybody
_TOO_MANY = f"one answer can go to {_MOST} places at most"


class _NotSent(NamedTuple):
    to: str
    reason: str  # for the agent
    text: str
    told: str = _FORBIDDEN  # to the person; empty: the origin of the chain is told


class _Refused(NamedTuple):
    reason: str
    told: str = _FORBIDDEN


class PassedOn(NamedTuple):
    """What became of the tags of one answer.

    Attributes:
        here: texts for the very place that the answer goes to anyway.
        sent_to: where the others went, in the agent's words.
        problems: a sentence for the person about each text that was not sent.
        files_here: the files of *here*.
    """

    here: tuple[str, ...]
    sent_to: tuple[str, ...]
    problems: tuple[str, ...]
    files_here: tuple[OutgoingFile, ...] = ()


_NO_FILES: Mapping[str, OutgoingFile] = MappingProxyType({})


def pass_on(
    conn: apsw.Connection,
    asked: Message,
    said: str,
    tags: Sequence[HandOff],
    *,
    handed: Mapping[str, OutgoingFile] = _NO_FILES,
    limits: MailLimits,
    now_ms: int,
) -> PassedOn:
    """Send what the tags say, as the agent of *asked*.

    Args:
        said: the rest of the answer, which teammates read first.
        handed: the files that the tags name; one that is not there could not be copied, and is told already.
    """
    here: list[str] = []
    files_here: list[OutgoingFile] = []
    sent_to: list[str] = []
    refused: list[_NotSent] = []
    places = list(_each(tags))
    for tag, name in places[:_MOST]:
        files = [handed[each] for each in tag.files if each in handed]
        if _is_here(conn, asked, tag, name):
            here.append(tag.text)
            files_here += files
            continue
        problem = _try_to_send(conn, asked, said, tag, name, files, limits=limits, now_ms=now_ms)
        if problem is None:
            sent_to.append(_shown(tag, name))
        else:
            refused.append(_NotSent(_shown(tag, name), problem.reason, tag.text, problem.told))
    beyond = places[_MOST:]
    refused += [_NotSent(_shown(*each), _TOO_MANY, each[0].text, _TOO_MANY) for each in beyond[:_MOST_REFUSED]]
    others = max(0, len(beyond) - _MOST_REFUSED)
    if refused:
        _tell_agent(conn, asked, refused, others, now_ms=now_ms)
    return PassedOn(tuple(here), tuple(sent_to), tuple(_sentences(refused, others)), tuple(files_here))


def _sentences(refused: Sequence[_NotSent], others: int) -> Iterator[str]:
    told = [each for each in refused if each.told]
    for each in told[:_MOST_SENTENCES]:
        yield f"My message to {each.to} was not sent: {each.told}."
    if (more := len(told) + others - _MOST_SENTENCES) > 0:
        yield f"{more} more were not sent either."


def _each(tags: Sequence[HandOff]) -> Iterator[tuple[HandOff, str]]:
    for tag in tags:
        match tag:
            case ToDestination():
                yield tag, tag.name
            case ToTeam():
                yield tag, tag.team
            case _:
                yield from ((tag, name) for name in tag.names)


def _shown(tag: HandOff, name: str) -> str:
    return f"#{name}" if isinstance(tag, ToTeam) else f"“{name}”" if isinstance(tag, ToDestination) else f"@{name}"


def _is_here(conn: apsw.Connection, asked: Message, tag: HandOff, name: str) -> bool:
    """Whether the answer goes there anyway: to the chat of the question, or to the agent that asked."""
    if isinstance(tag, ToTeam):
        return False
    found = destinations.get(conn, asked.agent, name.lower())
    if isinstance(tag, ToDestination) and found is not None and found.target_chat is not None:
        return found.target_chat == asked.chat_id
    recipient = _recipient(conn, asked.agent, name)
    return recipient is not None and mailbox.reads_answer(conn, recipient, asked)


def _try_to_send(
    conn: apsw.Connection,
    asked: Message,
    said: str,
    tag: HandOff,
    name: str,
    files: Sequence[OutgoingFile],
    *,
    limits: MailLimits,
    now_ms: int,
) -> _Refused | None:
    """Send it; why it could not be sent, or None."""
    try:
        with savepoint(conn):
            _send(conn, asked, said, tag, name, files, limits=limits, now_ms=now_ms)
    except MailRefused as error:
        chain_ends.tell(conn, error, now_ms=now_ms)
        return _Refused(error.reason, "")
    except (NotFound, WrongState) as error:
        return _Refused(str(error))
    return None


def _send(
    conn: apsw.Connection,
    asked: Message,
    said: str,
    tag: HandOff,
    name: str,
    files: Sequence[OutgoingFile],
    *,
    limits: MailLimits,
    now_ms: int,
) -> None:
    if isinstance(tag, ToTeam):
        team = teams.get(conn, name.lower())
        if team is None or asked.agent not in team.agents:
            raise NotFound("I am in no team of this name")
        rooms.post(
            conn, team, tag.text, from_agent=asked.agent, because=asked, files=files, limits=limits, now_ms=now_ms
        )
        return
    target = destinations.get(conn, asked.agent, name.lower())
    if isinstance(tag, ToDestination) and target is not None and target.target_chat is not None:
        responses.enqueue(conn, _to_chat(conn, asked, target.target_chat, tag.text, files), now_ms=now_ms)
        return
    recipient = _recipient(conn, asked.agent, name)
    if recipient is None:
        known = ", ".join(each.name for each in destinations.of_agent(conn, asked.agent))
        raise NotFound(f"I can't write to anybody of this name; I can write to: {known or 'nobody'}")
    is_shared = said and not isinstance(tag, ToDestination)
    body = f"{said}{_BETWEEN}{tag.text}" if is_shared else tag.text
    within_ms = tag.within_ms if isinstance(tag, ToTeammates) else None
    mailbox.send(
        conn,
        asked.agent,
        recipient,
        body,
        because=asked.id,
        files=files,
        within_ms=deadlines.checked(within_ms),
        limits=limits,
        now_ms=now_ms,
    )


def _to_chat(
    conn: apsw.Connection, asked: Message, chat_id: int, text: str, files: Sequence[OutgoingFile]
) -> NewResponse:
    chat = chats.get(conn, chat_id)
    if chat is None:
        raise NotFound("this chat is gone")
    return NewResponse(
        message_id=ids.new("proactive"),
        channel=chat.channel,
        chat_id=chat.id if registry.is_adapted(chat.channel) else None,
        platform_id=chat.platform_id,
        session_id=asked.session_id,
        sender=chat.name or chat.platform_id,
        message=text,
        agent=asked.agent,
        content=content.encode({"origin": hops.origin(asked.content, asked.message_id)}),
        files=outgoing_files.encode(files) if files else "[]",
    )


def _recipient(conn: apsw.Connection, agent: str, name: str) -> str | None:
    """The agent that *agent* calls so, and may write to."""
    target = destinations.get(conn, agent, name.lower())
    return target.target_agent if target is not None and target.target_agent else teammate(conn, agent, name)


def teammate(conn: apsw.Connection, agent: str, name: str) -> str | None:
    """The other member of a team of *agent* with this id or name, in whatever case."""
    together = {each for team in teams.every(conn) if agent in team.agents for each in team.agents} - {agent}
    wanted = name.lower()
    if wanted in together:
        return wanted
    named = [each.id for each in agents.every(conn) if each.id in together and each.name.lower() == wanted]
    return named[0] if len(named) == 1 else None


def _tell_agent(
    conn: apsw.Connection, asked: Message, refused: Sequence[_NotSent], others: int, *, now_ms: int
) -> None:
    """Context for the agent's next turn in this session, and an event. *others*: so many more were refused."""
    note = "\n\n".join(
        f"Your message to {each.to} was not sent: {each.reason}. It was:\n{each.text}" for each in refused
    )
    origin = hops.origin(asked.content, asked.message_id)
    agent_notes.leave(conn, note, agent=asked.agent, session_id=asked.session_id, origin=origin, now_ms=now_ms)
    data: events.EventData = {"from_agent": asked.agent, "texts": len(refused) + others}
    events.append_about(conn, "handoff_refused", asked, data, now_ms=now_ms)
