"""Endings: an empty response for a message that gets no answer, where somebody is shown that one is awaited.

TinyAGI's channel clients show "typing" for each message that they sent, until a response names its id, for ten minutes
at most. So a message whose turn answered another one of its batch, and a cancelled message, get a response without a
text: the client sends nothing, and stops typing. Discord shows "thinking" under a command in the same way, which
``deliver`` takes away. Where nobody waits, nothing is stored.
"""

from collections.abc import Iterable

import apsw

from shared.channels import registry
from shared.core import content
from shared.core.content import ResponseContent
from shared.db.queue import mailbox, polled_channels, responses
from shared.db.queue.message_row import Message
from shared.db.queue.responses import NewResponse
from shared.queue import replies


def enqueue(conn: apsw.Connection, unanswered: Iterable[Message], *, now_ms: int) -> None:
    """Store an empty response for each of the messages that a polling client waits for."""
    endings = [
        _ending(each, ends_wait=shows_wait)
        for each in unanswered
        if (shows_wait := is_shown_as_waiting(each, now_ms=now_ms)) or is_waited_for(conn, each)
    ]
    responses.enqueue_many(conn, endings, now_ms=now_ms)


def _ending(message: Message, *, ends_wait: bool) -> NewResponse:
    made = replies.response(message, "", agent=message.agent, session_id=message.session_id)
    if not ends_wait:
        return made
    carried: ResponseContent = content.decode(made.content)
    carried["ends_wait"] = True
    return made._replace(content=content.encode(carried))


def enqueue_for(conn: apsw.Connection, row_id: int, *, now_ms: int) -> None:
    """The same for the message in row *row_id*, if there is one."""
    found = mailbox.get(conn, row_id)
    if found is not None:
        enqueue(conn, [found.message], now_ms=now_ms)


def is_shown_as_waiting(message: Message, *, now_ms: int) -> bool:
    """Whether the message's platform shows that it awaits an answer, and still can be told that none comes."""
    wait_ms = registry.traits(message.channel).wait_ms
    is_own = bool(message.content.get("own_answer")) and "context" in message.content
    return wait_ms is not None and is_own and now_ms - message.created_at < wait_ms


def is_waited_for(conn: apsw.Connection, message: Message) -> bool:
    """Whether a person sent *message*, and the answer is a response that a client fetches."""
    is_delivered_here = message.chat_id is not None and registry.is_adapted(message.channel)
    if message.from_agent is not None or "team" in message.content or is_delivered_here:
        return False
    return polled_channels.is_polled(conn, message.channel)
