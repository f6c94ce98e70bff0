"""The end of a chain of messages between agents: each agent in it is told once, and so is its origin."""

import apsw

from shared.core import content, hops
from shared.core.content import MessageContent
from shared.db.queue import chains, conversations, events, messages, responses, sessions
from shared.db.queue import mailbox as mailbox_rows
from shared.db.queue.message_row import Message
from shared.db.queue.messages import NewMessage
from shared.db.roster import agents
from shared.queue import agent_notes, replies
from shared.queue.teamwork import deadlines, mailbox
from shared.queue.teamwork.chains import MailRefused

_NOT_ALL = "Not all that the agents wrote to each other because of this was sent"


def tell(conn: apsw.Connection, refused: MailRefused, *, now_ms: int) -> None:
    """Tell the agents of the chain and its origin that a message was refused; each of them only the first time.

    The sender knows it by the error. It needs a transaction of its own: that of the refused message is rolled back.
    """
    origin = _origin(conn, refused)
    in_it = [refused.sender, *refused.recipients]
    if origin is not None and origin.from_agent is not None:
        in_it.append(origin.from_agent)
    is_first = chains.end(conn, refused.origin, now_ms=now_ms)
    tell_agent = _note if refused.is_cost else _tell_agent
    for agent in chains.tell_agents(conn, refused.origin, in_it, now_ms=now_ms):
        if agent != refused.sender and agents.get(conn, agent) is not None:
            tell_agent(conn, agent, refused, now_ms=now_ms)
    if is_first:
        _tell_origin(conn, origin, refused, now_ms=now_ms)


def stop(conn: apsw.Connection, message: Message, reason: str, *, now_ms: int) -> None:
    """No turn began about *message*, because its chain has cost what it may: all are told, and none by a turn."""
    origin = hops.origin(message.content, message.message_id)
    deadlines.answered(conn, message, now_ms=now_ms)
    sender = message.from_agent or message.sender
    said = f"You had no turn for a message of {sender}: {reason}. It was:\n{message.message}"
    agent_notes.leave(conn, said, agent=message.agent, session_id=message.session_id, origin=origin, now_ms=now_ms)
    refused = MailRefused(reason, origin=origin, cause=message, sender=message.agent, recipients=(), is_cost=True)
    tell(conn, refused, now_ms=now_ms)


def _note(conn: apsw.Connection, agent: str, refused: MailRefused, *, now_ms: int) -> None:
    """Context in the agent's mailbox session: a turn about it would cost more."""
    session = sessions.ensure(conn, agent, None, None, now_ms=now_ms)
    said = f"The work that you and {refused.sender} did for each other has ended: {refused.reason}."
    agent_notes.leave(conn, said, agent=agent, session_id=session, origin=refused.origin, now_ms=now_ms)


def _origin(conn: apsw.Connection, refused: MailRefused) -> Message | None:
    """The message that began the chain; where it is pruned or a line of a room, what later messages kept of it."""
    row = messages.find(conn, refused.origin)
    found = None if row is None else mailbox_rows.get(conn, row)
    if found is not None:
        return found.message
    message = refused.cause
    while message is not None and (behalf := message.content.get("behalf")):
        message = message._replace(**behalf)
    return message


def _tell_agent(conn: apsw.Connection, agent: str, refused: MailRefused, *, now_ms: int) -> None:
    """A status in the agent's mailbox, which needs no answer. It belongs to the chain, so it can't revive it."""
    cause = refused.cause
    carried: MessageContent = {"hops": hops.count(cause.content) + 1 if cause else 0, "origin": refused.origin}
    to = ", ".join(refused.recipients)
    new = NewMessage(
        id_prefix=mailbox.CHANNEL,
        channel=mailbox.CHANNEL,
        platform_id=refused.sender,
        thread_id=refused.origin,
        sender=refused.sender,
        message=f"A message from {refused.sender} to {to} was not sent: {refused.reason}.",
        content=content.encode(carried),
        agent=agent,
        session_id=sessions.ensure(conn, agent, None, None, now_ms=now_ms),
        from_agent=refused.sender,
        conversation_id=conversations.carry_on(conn, cause.conversation_id if cause else None, now_ms=now_ms),
        msg_type="status",
    )
    messages.enqueue(conn, new, now_ms=now_ms)


def _tell_origin(conn: apsw.Connection, origin: Message | None, refused: MailRefused, *, now_ms: int) -> None:
    """A sentence where a person or the operator wrote, and an event. An agent that began the chain has its status."""
    events.append(
        conn,
        "chain_ended",
        now_ms=now_ms,
        message_id=origin.message_id if origin else None,
        agent=refused.sender,
        channel=mailbox.CHANNEL,
        data={"reason": refused.reason, "from_agent": refused.sender},
    )
    if origin is None or origin.from_agent is not None:
        return
    what = "The agents ended their work on this early" if refused.is_cost else _NOT_ALL
    sentence = f"{what}: {refused.reason}."
    place = mailbox.answer(conn, origin, sentence, now_ms=now_ms)
    if place is not None:
        said = replies.response(place, sentence, agent=origin.agent, session_id=origin.session_id)
        responses.enqueue(conn, said, now_ms=now_ms)
