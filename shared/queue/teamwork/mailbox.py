"""The mailbox: messages between agents and the operator, in the same table ``messages`` as all others.

A message waits in the mailbox session of its recipient (the agent-shared one) and runs as a turn like any other, or
``consume`` takes it out before. It carries its thread, its conversation, and the number of messages that led to it.

The text of an agent in such a turn is the *answer*, and returns to the session that asked. An answer is not answered,
so two agents that answer everything (``echo``) stop there. What the asking agent says about the answer goes to the
origin of its question::

    Ana ──"ask bob"──> alice ──send──> bob          bob's turn: "42"
    Ana <──"bob says 42"── alice <──answer── bob    alice's turn, in her session with Ana

    without an origin, alice's words about the answer are only in her history.

To say more, an agent sends or replies, and ``chains`` limits that. A ``status`` or a ``nudge`` needs no answer. The
operator is no agent: an answer to the operator is a response on the channel ``internal``, to be fetched. An answer to a
room is a line of the room.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, cast

import apsw

from shared.channels.base import OutgoingFile
from shared.core import content, hops
from shared.core.content import AskedFor, MessageContent
from shared.core.errors import NotFound, WrongState
from shared.db.queue import conversations, events, mailbox, messages, responses, sessions
from shared.db.queue.mailbox import MailboxMessage, UrgentMessage
from shared.db.queue.message_row import Message
from shared.db.queue.messages import NewMessage
from shared.db.roster import agents
from shared.queue import replies
from shared.queue.teamwork import chains, deadlines, passed_files, rooms
from shared.queue.teamwork.chains import MailLimits

CHANNEL = "internal"
OPERATOR = "operator"

Kind = Literal["message", "task", "status", "nudge"]
Urgency = Literal["normal", "urgent"]

_ANSWERED = ("message", "task")
_QUOTED = 500  # characters of the answered message


class StoredReply(NamedTuple):
    """The id of the stored row: a message to an agent, a response to a person, or a line of a room."""

    message: int | None = None
    response: int | None = None
    line: int | None = None


def send(
    conn: apsw.Connection,
    sender: str,
    recipient: str,
    body: str,
    *,
    msg_type: Kind = "message",
    urgency: Urgency = "normal",
    conversation_id: str | None = None,
    because: int | None = None,
    files: Sequence[OutgoingFile] = (),
    within_ms: int | None = None,
    limits: MailLimits = chains.LIMITS,
    now_ms: int,
) -> int:
    """Store a message for an agent; returns its row. After the commit, a kick makes dispatch look at once.

    Args:
        sender: an agent, or ``operator``.
        conversation_id: None means the conversation of the message *because*, or a new one. A closed conversation is
            replaced by a new one.
        because: the row of the message in whose turn the sender writes.
        files: copies on this host, which the agent finds in its inbox.
        within_ms: if there is no answer by then, the agent that sends this is woken; see ``deadlines``.

    Raises:
        NotFound: there is no such agent.
        WrongState: the agent writes to itself, or can't be given these files.
        MailRefused: the message is beyond a limit; see ``chains``.
    """
    from_agent = None if sender == OPERATOR else _known(conn, sender)
    if from_agent is not None:
        from shared.agents import prompt  # late: ingest imports this module, and repeats no agent

        body = prompt.unwrapped(body)
    _known(conn, recipient)
    if recipient == from_agent:
        raise WrongState(f"agent {sender!r} writes to itself; name another recipient")
    cause = None if because is None else mailbox.get(conn, because)
    carried = MessageContent(hops=0)
    if from_agent is not None:
        because_of = cause.message if cause else None
        carried = chains.extend(conn, because_of, from_agent, (recipient,), limits=limits, now_ms=now_ms)
    thread = sender
    if cause is not None:
        behalf = _behalf(cause.message)
        carried["asker"] = cause.message.session_id
        if behalf:
            carried["behalf"] = behalf
        thread = cause.message.message_id
        conversation_id = conversation_id or cause.message.conversation_id
    if within_ms is not None and from_agent is not None and msg_type in _ANSWERED:
        because_of = cause.message if cause else None
        carried["deadline"] = deadlines.plan(
            conn, from_agent, recipient, body, carried, cause=because_of, within_ms=within_ms, now_ms=now_ms
        )
    passed = passed_files.checked(conn, (recipient,), files, limits.files_mb)
    if files and not body.strip():
        carried["only_files"] = content.files_in_words(content.decode_list(passed))
    new = NewMessage(
        id_prefix=CHANNEL,
        channel=CHANNEL,
        platform_id=sender,
        thread_id=thread,  # one answer can't serve questions from two origins
        sender=sender,
        message=body,
        content=content.encode(carried),
        files=passed,
        agent=recipient,
        session_id=sessions.ensure(conn, recipient, None, None, now_ms=now_ms),
        from_agent=from_agent,
        conversation_id=conversations.carry_on(conn, conversation_id, now_ms=now_ms),
        msg_type=msg_type,
        urgency=urgency,
    )
    row = _store(conn, new, now_ms=now_ms)
    if from_agent is not None:
        events.append(
            conn,
            "chain_handoff",
            now_ms=now_ms,
            message_id=messages.id_of(conn, row),
            agent=recipient,
            channel=CHANNEL,
            session_id=new.session_id,
            data={"from_agent": from_agent, "hops": carried["hops"]},
        )
    return row


def reply(
    conn: apsw.Connection,
    original: int,
    body: str,
    *,
    msg_type: Kind = "message",
    urgency: Urgency = "normal",
    limits: MailLimits = chains.LIMITS,
    now_ms: int,
) -> StoredReply:
    """Answer the message in row *original*, as its agent, to its sender; in the same thread.

    Raises:
        NotFound: no such message, or its sender or the member of the room no longer exists.
        MailRefused: the message to an agent is beyond a limit; see ``chains``.
    """
    found = mailbox.get(conn, original)
    if found is None:
        raise NotFound(f"there is no message {original}")
    asked = found.message
    from shared.agents import prompt  # late: ingest imports this module, and repeats no agent

    body = prompt.unwrapped(body)
    if asked.from_agent is not None:
        _known(conn, asked.from_agent)
        chains.extend(conn, asked, asked.agent, (asked.from_agent,), limits=limits, now_ms=now_ms)
        return StoredReply(message=_answer(conn, found, body, msg_type=msg_type, urgency=urgency, now_ms=now_ms))
    if _is_of_room(asked):
        team = asked.content["team"]
        line = rooms.answer(conn, team, body, from_agent=asked.agent, because=asked.content, now_ms=now_ms)
        if line is None:
            raise NotFound(f"agent {asked.agent!r} is no longer in a team {team!r}")
        return StoredReply(line=line)
    new = replies.response(asked, body, agent=asked.agent, session_id=asked.session_id)
    return StoredReply(response=responses.enqueue(conn, new, now_ms=now_ms))


def answer(
    conn: apsw.Connection,
    asked: Message,
    text: str,
    *,
    files: Sequence[OutgoingFile] = (),
    limits: MailLimits = chains.LIMITS,
    now_ms: int,
) -> Message | None:
    """Send an agent's text in its turn about *asked* back, if *asked* came from an agent or a room.

    Args:
        files: copies on this host, which go along.

    Returns:
        The message of the person who gets the text instead, or None.
    """
    if _is_of_room(asked):
        team = asked.content["team"]
        rooms.answer(
            conn, team, text, from_agent=asked.agent, because=asked.content, files=files, limits=limits, now_ms=now_ms
        )
        return None
    if asked.channel != CHANNEL:
        return asked
    if asked.content.get("is_answer"):
        asked_for = asked.content.get("behalf")
        if asked_for is None:
            return None
        return answer(conn, _restored(asked, asked_for), text, files=files, limits=limits, now_ms=now_ms)
    if asked.from_agent is None:
        return asked
    question = mailbox.get(conn, asked.id) or MailboxMessage(
        asked, "message", "normal", None, None, "completed", now_ms
    )
    if question.msg_type in _ANSWERED and agents.get(conn, asked.from_agent) is not None:
        chains.count_answer(conn, asked, now_ms=now_ms)
        text, passed = passed_files.with_answer(conn, (asked.from_agent,), text, files, limits.files_mb)
        _answer(conn, question._replace(message=asked), text, files=passed, now_ms=now_ms)
    return None


def reads_answer(conn: apsw.Connection, agent: str, asked: Message) -> bool:
    """Whether *agent* asked, and so reads the answer of the turn about *asked* without being written to."""
    if asked.channel != CHANNEL or asked.from_agent != agent or asked.content.get("is_answer"):
        return False
    question = mailbox.get(conn, asked.id)
    return question is None or question.msg_type in _ANSWERED


def person_of(asked: Message) -> Message | None:
    """The message of the person who gets what the agent says about *asked*; None: an agent or a room gets it."""
    if _is_of_room(asked):
        return None
    if asked.channel != CHANNEL:
        return asked
    if asked.content.get("is_answer"):
        asked_for = asked.content.get("behalf")
        return None if asked_for is None else person_of(_restored(asked, asked_for))
    return asked if asked.from_agent is None else None


def agent_reads(conn: apsw.Connection, asked: Message) -> bool:
    """Whether agents read what the agent of *asked* answers, and no person."""
    if _is_of_room(asked):
        return True
    if asked.channel == CHANNEL and asked.content.get("is_answer"):
        asked_for = asked.content.get("behalf")
        return asked_for is not None and agent_reads(conn, _restored(asked, asked_for))
    return asked.from_agent is not None and reads_answer(conn, asked.from_agent, asked)


def _is_of_room(asked: Message) -> bool:
    return asked.channel == rooms.CHANNEL and "team" in asked.content  # else a channel of the same name over REST


def _answer(
    conn: apsw.Connection,
    question: MailboxMessage,
    text: str,
    *,
    msg_type: Kind = "message",
    urgency: Urgency = "normal",
    files: str = "[]",
    now_ms: int,
) -> int:
    asked = question.message
    deadlines.answered(conn, asked, now_ms=now_ms)
    asker = asked.from_agent or ""
    behalf = asked.content.get("behalf")
    carried: MessageContent = {
        "hops": hops.count(asked.content) + 1,
        "origin": hops.origin(asked.content, asked.message_id),
        "asker": asked.session_id,
        "is_answer": True,
        "reply_to": {"text": asked.message[:_QUOTED]},
    }
    if behalf:
        carried["behalf"] = behalf
    new = NewMessage(
        id_prefix=CHANNEL,
        channel=CHANNEL,
        # in the chat of the origin, so that one answer serves all its messages
        chat_id=behalf["chat_id"] if behalf else None,
        platform_id=asked.agent,
        thread_id=behalf["thread_id"] if behalf else None,
        sender=asked.agent,
        message=text,
        content=content.encode(carried),
        files=files,
        agent=asker,
        session_id=_session(conn, asker, asked.content.get("asker"), now_ms=now_ms),
        from_agent=asked.agent,
        conversation_id=conversations.carry_on(conn, asked.conversation_id, now_ms=now_ms),
        msg_type=msg_type,
        urgency=urgency,
        reply_to=asked.id,
        thread_root=question.root,
    )
    return _store(conn, new, now_ms=now_ms)


def _session(conn: apsw.Connection, agent: str, asker: int | None, *, now_ms: int) -> int:
    """The session that asked, or its successor; else the agent's mailbox session."""
    found = None if asker is None else sessions.going_on(conn, asker, agent)
    return found if found is not None else sessions.ensure(conn, agent, None, None, now_ms=now_ms)


_KEPT_OF_CONTENT = ("is_group", "context", "hops", "origin", "asker", "behalf", "deadline", "team", "line")


def _behalf(cause: Message) -> AskedFor | None:
    """The facts of *cause* that the answer to a question for it needs; its row may be pruned by then."""
    if cause.content.get("is_answer"):
        return cause.content.get("behalf")
    kept = {name: value for name, value in cause.content.items() if name in _KEPT_OF_CONTENT}
    return {
        "id": cause.id,
        "message_id": cause.message_id,
        "channel": cause.channel,
        "chat_id": cause.chat_id,
        "platform_id": cause.platform_id,
        "thread_id": cause.thread_id,
        "platform_message_id": cause.platform_message_id,
        "sender": cause.sender,
        "sender_id": cause.sender_id,
        "agent": cause.agent,
        "from_agent": cause.from_agent,
        "session_id": cause.session_id,
        "conversation_id": cause.conversation_id,
        "created_at": cause.created_at,
        "message": cause.message[:_QUOTED],
        "content": cast(MessageContent, kept),
    }


def _restored(like: Message, behalf: AskedFor) -> Message:
    return like._replace(**behalf)


def _store(conn: apsw.Connection, new: NewMessage, *, now_ms: int) -> int:
    row = messages.enqueue(conn, new, now_ms=now_ms)
    assert row is not None  # noqa: S101 - only a platform's event can be stored already
    return row


def _known(conn: apsw.Connection, agent: str) -> str:
    if agents.get(conn, agent) is None:
        raise NotFound(f"no agent {agent!r}; known: {', '.join(each.id for each in agents.every(conn))}")
    return agent


def consume(conn: apsw.Connection, agent: str, *, now_ms: int) -> list[MailboxMessage]:
    """Take the pending messages out of the agent's mailbox, oldest first; no turn gets them.

    Raises:
        NotFound: there is no such agent.
    """
    return mailbox.consume(conn, _known(conn, agent), now_ms=now_ms)


def poll_urgent(conn: apsw.Connection) -> list[UrgentMessage]:
    """The urgent messages that are not delivered, oldest first."""
    return mailbox.poll_urgent(conn)


def thread(conn: apsw.Connection, member: int) -> list[MailboxMessage]:
    """The whole thread of the message in row *member*, in order; empty if there is no such message."""
    found = mailbox.get(conn, member)
    return mailbox.thread(conn, found.root if found else member)
