"""Whether a part that got no answer is in its channel: read back from the channel's messages.

Discord recognises a repeated nonce for some minutes. After them, the channel's messages are the evidence: ours are of
our application, and have the part's nonce or its text.

Source: https://docs.discord.com/developers/resources/message#get-channel-messages (``after``, at most 100).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from shared.channels.base import Evidence, Outgoing, Part
from shared.channels.discord.api_calls import nonce

NONCE_LIVES_MS = 2 * 60_000  # Discord says "the past few minutes"
PAGE = 100
PAGES = 5
_EPOCH_MS = 1_420_070_400_000
_SKEW_MS = 60_000  # between Discord's clock and ours


def snowflake_before(at_ms: int) -> str:
    """The id that a message from the minute before *at_ms* would have."""
    return str(max(at_ms - _SKEW_MS - _EPOCH_MS, 0) << 22)


def is_of(message: Mapping[str, Any], part: Part, to: Outgoing, application_id: str) -> bool:
    """Whether *message* of the channel can be this part, as our application sent it. Pure."""
    author = message.get("author")
    author_id = author.get("id") if isinstance(author, Mapping) else None
    if application_id not in (author_id, message.get("application_id")):
        return False
    told = message.get("nonce")
    if told is not None:
        return str(told) == nonce(to)
    if to.poll is not None:
        return _question(message) == to.poll.question
    return _same(str(message.get("content", "")), part.text) and _files(message) == len(part.files)


def evidence(messages: Sequence[Mapping[str, Any]], part: Part, to: Outgoing, application_id: str) -> Evidence:
    """What all messages since the send say of the part. Pure."""
    ids = [str(message.get("id")) for message in messages if is_of(message, part, to, application_id)]
    return Evidence("arrived", tuple(sorted(ids, key=_age))) if ids else Evidence("absent")


def _same(shown: str, sent: str) -> bool:
    return " ".join(shown.split()) == " ".join(sent.split())


def _question(message: Mapping[str, Any]) -> str | None:
    """What the message's poll asks; None: it has none."""
    match message.get("poll"):
        case {"question": {"text": str(text)}}:
            return text
    return None


def _files(message: Mapping[str, Any]) -> int:
    attachments = message.get("attachments")
    return len(attachments) if isinstance(attachments, Sequence) else 0


def _age(number: str) -> int:
    return int(number) if number.isdecimal() else 0
