"""Answers to people: a response to the place of the message."""

from collections.abc import Sequence

from shared.channels import outgoing_files
from shared.channels.base import OutgoingFile
from shared.core import content, ids
from shared.core.content import ResponseContent
from shared.db.queue.message_row import Message
from shared.db.queue.responses import NewResponse
from shared.db.views.own_responses import OwnResponse


def beside(
    place: Message | OwnResponse,
    text: str,
    carried: ResponseContent,
    *,
    agent: str | None = None,
    session_id: int | None = None,
) -> NewResponse:
    """A response at the place of an earlier message that answers nothing: a line of progress, a reaction."""
    return NewResponse(
        message_id=ids.new("proactive"),
        channel=place.channel,
        chat_id=place.chat_id,
        platform_id=place.platform_id,
        thread_id=place.thread_id,
        sender=place.sender,
        message=text,
        agent=agent,
        session_id=session_id,
        content=content.encode(carried),
    )


def response(
    asked: Message, text: str, *, agent: str, session_id: int, files: Sequence[OutgoingFile] = ()
) -> NewResponse:
    """The response of *agent* to *asked*.

    Args:
        files: copies on this host, which go out with it.
    """
    carried = ResponseContent()
    if asked.content.get("is_group"):
        carried["reply_to"] = asked.platform_message_id
    if "context" in asked.content:
        # A replayed message gets a new answer: with its own instant the answer would replace the first one.
        asked_at = 0 if "replay_of" in asked.content else asked.created_at
        carried |= {"context": asked.content["context"], "asked_at": asked_at}
    return NewResponse(
        message_id=asked.message_id,
        in_reply_to=asked.id,
        channel=asked.channel,
        chat_id=asked.chat_id,
        platform_id=asked.platform_id,
        thread_id=asked.thread_id,
        session_id=session_id,
        sender=asked.sender,
        sender_id=asked.sender_id,
        message=text,
        original_message=asked.message,
        agent=agent,
        content=content.encode(carried),
        files=outgoing_files.encode(files) if files else "[]",
    )
