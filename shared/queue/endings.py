"""Endings: an empty response for a message that gets no answer, where a client polls for it.

TinyAGI's channel clients show "typing" for each message that they sent, until a response names its id, for ten minutes
at most. So a message whose turn answered another one of its batch, and a cancelled message, get a response without a
text: the client sends nothing, and stops typing. Where no client polls, nothing is stored.
"""

from collections.abc import Iterable

import apsw

from shared.channels import registry
from shared.db.queue import mailbox, polled_channels, responses
from shared.db.queue.message_row import Message
from shared.queue import replies


def enqueue(conn: apsw.Connection, unanswered: Iterable[Message], *, now_ms: int) -> None:
    """Store an empty response for each of the messages that a polling client waits for."""
    ended = [message for message in unanswered if is_waited_for(conn, message)]
    endings = [replies.response(each, "", agent=each.agent, session_id=each.session_id) for each in ended]
    responses.enqueue_many(conn, endings, now_ms=now_ms)


def enqueue_for(conn: apsw.Connection, row_id: int, *, now_ms: int) -> None:
    """The same for the message in row *row_id*, if there is one."""
    found = mailbox.get(conn, row_id)
    if found is not None:
        enqueue(conn, [found.message], now_ms=now_ms)


def is_waited_for(conn: apsw.Connection, message: Message) -> bool:
    """Whether a person sent *message*, and the answer is a response that a client fetches."""
    is_delivered_here = message.chat_id is not None and registry.is_adapted(message.channel)
    if message.from_agent is not None or "team" in message.content or is_delivered_here:
        return False
    return polled_channels.is_polled(conn, message.channel)
