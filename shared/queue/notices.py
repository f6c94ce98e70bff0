"""What we say ourselves, without an agent: refusals, waits, results of commands, cards and news for operators."""

from typing import Unpack

import apsw

from shared.channels.base import SAID_IN_CONTEXT, Event
from shared.core import content, ids
from shared.core.content import ResponseContent
from shared.db.queue import responses
from shared.db.queue.responses import NewResponse
from shared.db.roster.chats import Chat

AHEAD = "system"  # the kind of a response that goes out before the answers that wait for the platform's limits


def say(
    conn: apsw.Connection,
    channel: str,
    event: Event,
    text: str,
    *,
    chat_id: int,
    agent: str | None = None,
    is_ahead: bool = False,
    now_ms: int,
    **more: Unpack[ResponseContent],
) -> int:
    """Answer *event* with *text*, as a response for ``deliver``; its row. The person's own text is not stored.

    Args:
        is_ahead: it goes out before the answers that wait there for the platform's limits.
        more: further fields of the response's content.
    """
    carried = ResponseContent()
    if event.is_group and event.platform_message_id is not None and event.kind != "callback":
        carried["reply_to"] = event.platform_message_id
    context = {name: fact for name, fact in event.context.items() if name not in SAID_IN_CONTEXT}
    if context and event.kind != "callback":
        carried |= {"context": context, "asked_at": now_ms}
    new = NewResponse(
        message_id=ids.new("proactive"),
        channel=channel,
        chat_id=chat_id,
        platform_id=event.platform_id,
        thread_id=event.thread_id,
        sender=event.sender,
        sender_id=event.sender_id,
        message=text,
        agent=agent,
        content=content.encode({**carried, **more}),
        kind=AHEAD if is_ahead else "chat",
    )
    return responses.enqueue(conn, new, now_ms=now_ms)


def write(conn: apsw.Connection, chat: Chat, text: str, carried: ResponseContent | None = None, *, now_ms: int) -> int:
    """Write a response of our own to the chat, without an event to answer; its row.

    Args:
        carried: the content of the response.
    """
    new = NewResponse(
        message_id=ids.new("proactive"),
        channel=chat.channel,
        chat_id=chat.id,
        platform_id=chat.platform_id,
        sender="",
        message=text,
        content=content.encode(carried or {}),
    )
    return responses.enqueue(conn, new, now_ms=now_ms)
