"""The mailbox: what agents, and whoever looks after them, write to each other. Rows of ``messages`` like all others.

A message waits in the recipient's own session for mail (its agent-shared one) and is run as a turn like any other, or
is taken out before that (``consume``). It carries its thread, its conversation, and how many messages led to it.

What an agent says in such a turn is the *answer*, and goes back to the session in which the other one asked. An answer
is not answered: two agents that say something to everything (``echo``) stop there. What the asker says about it goes to
where the question was asked for::

    Ana ──"ask bob"──> alice ──send──> bob          bob's turn: "42"
    Ana <──"bob says 42"── alice <──answer── bob    alice's turn, in her session with Ana

    where alice had nobody to ask for, what she says about the answer stands in her history alone.

Whoever wants to say more sends or replies, and ``hops`` ends that. A ``status`` or a ``nudge`` asks for no answer. To
the operator, who is no agent, an answer is a response on the channel ``internal``, which waits there to be fetched; to
a room it is a line of the room.
"""

from typing import Literal, NamedTuple, cast

import apsw

from shared.core import content, hops
from shared.core.content import AskedFor, MessageContent
from shared.core.errors import NotFound, WrongState
from shared.db.queue import conversations, events, mailbox, messages, responses, sessions
from shared.db.queue.mailbox import MailboxMessage, UrgentMessage
from shared.db.queue.message_row import Message
from shared.db.queue.messages import NewMessage
from shared.db.roster import agents
from shared.queue import replies, rooms

CHANNEL = "internal"
OPERATOR = "operator"

Kind = Literal["message", "task", "status", "nudge"]
Urgency = Literal["normal", "urgent"]

_ANSWERED = ("message", "task")
_QUOTED = 500  # characters of what is answered


class StoredReply(NamedTuple):
    """What was stored: a message to an agent, a response to a person, or a line of a room. Rows' ids."""

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
    now_ms: int,
) -> int:
    """Leave a message for an agent; its row. When it is committed, a kick lets dispatch look at once.

    Args:
        sender: an agent, or ``operator``.
        conversation_id: where it belongs; None: that of the message *because*, or a new one. A closed one is left for a
            new one.
        because: the row of the message in whose turn the sender writes.

    Raises:
        NotFound: there is no such agent.
        WrongState: to itself, or too many messages led to this one.
    """
    from_agent = None if sender == OPERATOR else _known(conn, sender)
    _known(conn, recipient)
    if recipient == from_agent:
        raise WrongState(f"agent {sender!r} writes to itself")
    cause = None if because is None else mailbox.get(conn, because)
    carried: MessageContent = {"hops": hops.next_count(cause.message.content if cause else None)}
    thread = sender
    if cause is not None:
        behalf = _behalf(cause.message)
        carried["asker"] = cause.message.session_id
        if behalf:
            carried["behalf"] = behalf
        thread = cause.message.message_id
        conversation_id = conversation_id or cause.message.conversation_id
    new = NewMessage(
        id_prefix=CHANNEL,
        channel=CHANNEL,
        platform_id=sender,
        thread_id=thread,  # with what was asked for somebody else, one answer can't serve both
        sender=sender,
        message=body,
        content=content.encode(carried),
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
            message_id=new.message_id(row),
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
    now_ms: int,
) -> StoredReply:
    """Answer the message in row *original*, as the agent it was for, to whoever wrote it; in the same thread.

    Raises:
        NotFound: no such message, or nobody any more who wrote it, or no such member of the room any more.
        WrongState: too many messages led to this one.
    """
    letter = mailbox.get(conn, original)
    if letter is None:
        raise NotFound(f"there is no message {original}")
    asked = letter.message
    if asked.from_agent is not None:
        hops.next_count(asked.content)
        _known(conn, asked.from_agent)
        return StoredReply(message=_answer(conn, letter, body, msg_type=msg_type, urgency=urgency, now_ms=now_ms))
    if _is_of_room(asked):
        team = asked.content["team"]
        line = rooms.answer(conn, team, body, from_agent=asked.agent, because=asked.content, now_ms=now_ms)
        if line is None:
            raise NotFound(f"agent {asked.agent!r} is in no team {team!r} any more")
        return StoredReply(line=line)
    new = replies.response(asked, body, agent=asked.agent, session_id=asked.session_id)
    return StoredReply(response=responses.enqueue(conn, new, now_ms=now_ms))


def answer(conn: apsw.Connection, asked: Message, text: str, *, now_ms: int) -> Message | None:
    """What an agent says in its turn to *asked*, if that came from agents or a room, goes there.

    Returns:
        The message of a person whom it goes to instead, or None.
    """
    if _is_of_room(asked):
        team = asked.content["team"]
        rooms.answer(conn, team, text, from_agent=asked.agent, because=asked.content, now_ms=now_ms)
        return None
    if asked.channel != CHANNEL:
        return asked
    if asked.content.get("is_answer"):
        asked_for = asked.content.get("behalf")
        return None if asked_for is None else answer(conn, _restored(asked, asked_for), text, now_ms=now_ms)
    if asked.from_agent is None:
        return asked
    letter = mailbox.get(conn, asked.id) or MailboxMessage(asked, "message", "normal", None, None, "completed", now_ms)
    if letter.msg_type in _ANSWERED and agents.get(conn, asked.from_agent) is not None:
        _answer(conn, letter._replace(message=asked), text, now_ms=now_ms)
    return None


def _is_of_room(asked: Message) -> bool:
    return asked.channel == rooms.CHANNEL and "team" in asked.content  # else somebody outside calls his channel so


def _answer(
    conn: apsw.Connection,
    letter: MailboxMessage,
    text: str,
    *,
    msg_type: Kind = "message",
    urgency: Urgency = "normal",
    now_ms: int,
) -> int:
    asked = letter.message
    asker = asked.from_agent or ""
    behalf = asked.content.get("behalf")
    carried: MessageContent = {
        "hops": hops.count(asked.content) + 1,
        "asker": asked.session_id,
        "is_answer": True,
        "reply_to": {"text": asked.message[:_QUOTED]},
    }
    if behalf:
        carried["behalf"] = behalf
    new = NewMessage(
        id_prefix=CHANNEL,
        channel=CHANNEL,
        # with the other messages of that chat, so that one answer serves all
        chat_id=behalf["chat_id"] if behalf else None,
        platform_id=asked.agent,
        thread_id=behalf["thread_id"] if behalf else None,
        sender=asked.agent,
        message=text,
        content=content.encode(carried),
        agent=asker,
        session_id=_session(conn, asker, asked.content.get("asker"), now_ms=now_ms),
        from_agent=asked.agent,
        conversation_id=conversations.carry_on(conn, asked.conversation_id, now_ms=now_ms),
        msg_type=msg_type,
        urgency=urgency,
        reply_to=asked.id,
        thread_root=letter.root,
    )
    return _store(conn, new, now_ms=now_ms)


def _session(conn: apsw.Connection, agent: str, asker: int | None, *, now_ms: int) -> int:
    """The session in which the agent asked, or what followed it; else the one for its mail."""
    found = None if asker is None else sessions.going_on(conn, asker, agent)
    return found if found is not None else sessions.ensure(conn, agent, None, None, now_ms=now_ms)


_KEPT_OF_CONTENT = ("is_group", "context", "hops", "asker", "behalf", "team")


def _behalf(cause: Message) -> AskedFor | None:
    """What must be known of *cause* when the answer to what is asked for it comes; the row may be pruned by then."""
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
    assert row is not None  # noqa: S101 - only a platform's event can be there already
    return row


def _known(conn: apsw.Connection, agent: str) -> str:
    if agents.get(conn, agent) is None:
        raise NotFound(f"no agent {agent!r}; known: {', '.join(each.id for each in agents.every(conn))}")
    return agent


def consume(conn: apsw.Connection, agent: str, *, now_ms: int) -> list[MailboxMessage]:
    """Take the agent's waiting mail out of its mailbox, oldest first; no turn will have it. See ``db.mailbox.consume``.

    Raises:
        NotFound: there is no such agent.
    """
    return mailbox.consume(conn, _known(conn, agent), now_ms=now_ms)


def poll_urgent(conn: apsw.Connection) -> list[UrgentMessage]:
    """What is urgent and was not delivered, oldest first."""
    return mailbox.poll_urgent(conn)


def thread(conn: apsw.Connection, member: int) -> list[MailboxMessage]:
    """The whole thread to which the message in row *member* belongs, in order; nothing if there is no such message."""
    letter = mailbox.get(conn, member)
    return mailbox.thread(conn, letter.root if letter else member)
