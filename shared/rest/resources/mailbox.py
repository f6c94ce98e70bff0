"""Mailboxes: messages that agents and the operator write to each other, for the operator and for programs as agents.

The field names are those of the swarm's mailbox: *body*, *sender*, *recipient*, *msgType*, *urgency*.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, TypeVar

import apsw
from pydantic import Field
from typing_extensions import TypedDict

from shared.core.errors import WrongState
from shared.core.time import clock
from shared.db.queue import mailbox as mailbox_rows
from shared.db.queue import messages
from shared.db.queue.mailbox import MailboxMessage
from shared.queue.teamwork import chain_ends, mailbox
from shared.queue.teamwork.chains import MailLimits, MailRefused
from shared.rest.http.common import LimitQuery
from shared.rest.http.endpoint import Body, endpoint
from shared.rest.http.service import Service
from shared.roster.agents_and_teams import known_agent

T = TypeVar("T")

_UNKNOWN = {404: "there is no such agent"}


class MailboxMessageView(TypedDict):
    """A message between agents; *threadId*: its thread's first row; *deliveredAt*: when it was read or processed."""

    id: int
    messageId: str
    threadId: int
    replyTo: int | None
    sender: str
    recipient: str
    msgType: Literal["message", "task", "status", "nudge"]
    urgency: Literal["normal", "urgent"]
    body: str
    status: Literal["pending", "processing", "completed", "dead", "paused", "cancelled"]
    conversationId: str | None
    createdAt: int
    deliveredAt: int | None


class UrgentMessageView(TypedDict):
    """An urgent message that is not delivered yet."""

    id: int
    messageId: str
    recipient: str


class SentMessage(TypedDict):
    """The message is stored under this id."""

    ok: Literal[True]
    id: int
    messageId: str


class SentReply(TypedDict):
    """The reply is stored as a message to an agent, a response to a person or the operator, or a line of a room."""

    ok: Literal[True]
    messageId: str | None
    responseId: int | None
    line: int | None


class ReplyBody(Body):
    """The text of the reply, and how it is marked."""

    body: str = Field(min_length=1)
    msgType: Literal["message", "task", "status", "nudge"] = "message"
    urgency: Literal["normal", "urgent"] = "normal"


class MailboxMessageBody(ReplyBody):
    """*sender*: the agent in whose name the message is sent, or the operator.

    *because*: the message to that agent which led to this one. With it, Postroom can end a loop of agents that wake
    each other.
    """

    recipient: str = Field(min_length=1, max_length=64)
    sender: str = Field(default=mailbox.OPERATOR, min_length=1, max_length=64)
    conversationId: str | None = Field(default=None, max_length=64)
    because: str | None = Field(default=None, max_length=200, description="a messageId")


def _view(stored: MailboxMessage) -> MailboxMessageView:
    message = stored.message
    words: Any = stored.msg_type, stored.urgency, stored.status  # a CHECK of the table limits each of them
    msg_type, urgency, status = words
    return {
        "id": message.id,
        "messageId": message.message_id,
        "threadId": stored.root,
        "replyTo": stored.reply_to,
        "sender": message.from_agent or message.sender,
        "recipient": message.agent,
        "msgType": msg_type,
        "urgency": urgency,
        "body": message.message,
        "status": status,
        "conversationId": message.conversation_id,
        "createdAt": message.created_at,
        "deliveredAt": stored.updated_at if stored.status == "completed" else None,
    }


def _message_id(conn: apsw.Connection, row: int) -> str:
    stored = mailbox_rows.get(conn, row)
    assert stored is not None  # noqa: S101 - it was stored in this transaction
    return stored.message.message_id


def _cause(conn: apsw.Connection, body: MailboxMessageBody) -> int | None:
    if body.because is None:
        return None
    cause = mailbox_rows.get(conn, messages.known(conn, body.because))
    # Otherwise the answer would go to people who did not ask the sender.
    if cause is None or cause.message.agent != body.sender:
        raise WrongState(f"message {body.because!r} was not for {body.sender!r}")
    return cause.message.id


async def _write(service: Service, work: Callable[[apsw.Connection], T], *kicks: str) -> T:
    """The result of *work*. Where a message between agents was refused, the others in its chain are told of it."""
    try:
        return await service.change(work, *kicks)
    except MailRefused as refused:
        tell = partial(chain_ends.tell, refused=refused, now_ms=clock.now_ms())
        await service.change(tell, "dispatch", "deliver")
        raise


@endpoint(
    "POST",
    "/api/mail",
    {
        404: "there is no such agent, or no message *because*",
        409: "it is to its sender, *because* was for another agent, or agents wrote to each other too often",
    },
)
async def post_mail(service: Service, *, body: MailboxMessageBody) -> SentMessage:
    """Send a message to an agent's mailbox. An urgent one interrupts a running turn."""

    def work(conn: apsw.Connection) -> SentMessage:
        row = mailbox.send(
            conn,
            body.sender,
            body.recipient,
            body.body,
            msg_type=body.msgType,
            urgency=body.urgency,
            conversation_id=body.conversationId,
            because=_cause(conn, body),
            limits=MailLimits.of(service.settings),
            now_ms=clock.now_ms(),
        )
        return {"ok": True, "id": row, "messageId": _message_id(conn, row)}

    return await _write(service, work, "dispatch")


@endpoint("GET", "/api/mail/urgent")
async def get_urgent(service: Service) -> list[UrgentMessageView]:
    """List the urgent messages that are not delivered yet, oldest first."""
    found = mailbox.poll_urgent(service.reader)
    return [
        {"id": each.id, "messageId": stored.message.message_id, "recipient": each.recipient}
        for each in found
        if (stored := mailbox_rows.get(service.reader, each.id)) is not None
    ]


@endpoint("GET", "/api/agents/{id}/mail", _UNKNOWN)
async def get_mail(service: Service, *, id: str, query: LimitQuery) -> list[MailboxMessageView]:
    """List the messages in the agent's mailbox, oldest first. They stay there."""
    known_agent(service.reader, id)
    return list(map(_view, mailbox_rows.pending(service.reader, id, now_ms=service.now_ms(), limit=query.limit)))


@endpoint("POST", "/api/agents/{id}/mail/consume", _UNKNOWN)
async def consume(service: Service, *, id: str) -> list[MailboxMessageView]:
    """Take all messages out of the agent's mailbox, oldest first. They count as read; no turn processes them."""
    consumed = await service.change(lambda conn: mailbox.consume(conn, id, now_ms=clock.now_ms()))
    return list(map(_view, consumed))


@endpoint("GET", "/api/messages/{id}/thread", {404: "there is no such message"})
async def get_thread(service: Service, *, id: str) -> list[MailboxMessageView]:
    """List the thread of a message, oldest first."""
    return list(map(_view, mailbox.thread(service.reader, messages.known(service.reader, id))))


@endpoint(
    "POST",
    "/api/messages/{id}/reply",
    {
        404: "there is no such message, or its writer no longer exists",
        409: "agents wrote to each other too often",
    },
)
async def post_reply(service: Service, *, id: str, body: ReplyBody) -> SentReply:
    """Reply to a message as its recipient, in its thread. The reply goes to its writer: agent, operator or person."""

    def work(conn: apsw.Connection) -> SentReply:
        sent = mailbox.reply(
            conn,
            messages.known(conn, id),
            body.body,
            msg_type=body.msgType,
            urgency=body.urgency,
            limits=MailLimits.of(service.settings),
            now_ms=clock.now_ms(),
        )
        message_id = None if sent.message is None else _message_id(conn, sent.message)
        return {"ok": True, "messageId": message_id, "responseId": sent.response, "line": sent.line}

    return await _write(service, work, "dispatch", "deliver")


ENDPOINTS = (post_mail, get_urgent, get_mail, consume, get_thread, post_reply)
