"""Changes of what an agent said: responses that replace the text of an earlier one, in the order of their chat."""

from shared.channels import registry
from shared.core import content
from shared.core.content import ResponseContent
from shared.core.errors import WrongState
from shared.db.queue.responses import NewResponse
from shared.db.views.own_responses import OwnResponse

_ONE_PART = 1900  # characters that every platform takes as one message
_NO_TEXTS = {"reaction", "poll", "sticker", "topic"}
_ELSE = "send a new message instead"


def of(said: OwnResponse, text: str, *, agent: str | None, session_id: int | None) -> NewResponse:
    """The response that makes *said* show *text*.

    Raises:
        WrongState: it can't be changed; the message says why, and what to do.
    """
    _check(said, text)
    carried: ResponseContent = {"edits": said.id}
    for key in ("context", "asked_at"):
        if key in said.content:
            carried[key] = said.content[key]
    return NewResponse(
        message_id=said.message_id,
        in_reply_to=said.in_reply_to,
        channel=said.channel,
        chat_id=said.chat_id,
        platform_id=said.platform_id,
        thread_id=said.thread_id,
        sender=said.sender,
        message=text,
        agent=agent,
        session_id=session_id,
        content=content.encode(carried),
    )


def _check(said: OwnResponse, text: str) -> None:
    is_private = content.receiver(said.content.get("context") or {}) is not None or "click" in said.content
    if said.chat_id is None or is_private or not registry.traits(said.channel).has_edits:
        raise WrongState(f"message {said.id} can't be changed on {said.channel}: {_ELSE}")
    if said.has_files or not _NO_TEXTS.isdisjoint(said.content):
        raise WrongState(f"message {said.id} is no text, or has files, and can't be changed: {_ELSE}")
    if said.status in ("dead", "deleted"):
        raise WrongState(f"message {said.id} was never delivered: {_ELSE}")
    if said.parts > 1 or max(len(said.message), len(text)) > _ONE_PART:
        raise WrongState(f"message {said.id} is too long for one message of the platform: {_ELSE}")
