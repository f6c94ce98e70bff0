"""The attachments of a message, and a text for messages without text or caption.

Source: https://core.telegram.org/bots/api (10.3): #message, #getfile (what can be downloaded).
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from shared.channels import sanitize
from shared.channels.telegram import rich_messages
from shared.core import content

DOWNLOAD_BYTES = 20 * 1024 * 1024  # the limit of getFile

_FILES = ("live_photo", "animation", "audio", "document", "sticker", "video", "video_note", "voice")
_SHADOWS = {"animation": "document", "venue": "location", "live_photo": "photo"}
_ABOUT_THE_MESSAGE = frozenset({
    "from", "chat", "sender_chat", "direct_messages_topic", "sender_business_bot", "forward_origin", "forward_from",
    "forward_from_chat", "reply_to_message", "external_reply", "quote", "reply_to_story", "via_bot", "receiver_user",
    "guest_bot_caller_user", "guest_bot_caller_chat", "link_preview_options", "suggested_post_info", "reply_markup",
    "rich_message", "checklist",
})  # fmt: skip


class _File(msgspec.Struct):
    file_id: str
    file_size: int | None = None
    file_name: str | None = None
    mime_type: str | None = None
    width: int | None = None
    height: int | None = None
    duration: int | None = None
    emoji: str | None = None


class _Place(msgspec.Struct):
    latitude: float
    longitude: float


class _Venue(msgspec.Struct):
    location: _Place
    title: str = ""
    address: str = ""


class _Contact(msgspec.Struct):
    phone_number: str = ""
    first_name: str = ""
    last_name: str = ""
    user_id: int | None = None


class _Line(msgspec.Struct):
    text: str = ""


class _Poll(msgspec.Struct):
    question: str = ""
    options: list[_Line] = []


class _Checklist(msgspec.Struct):
    title: str = ""
    tasks: list[_Line] = []


class _Dice(msgspec.Struct):
    emoji: str = ""
    value: int = 0


def attachments(raw: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One attachment for each item beside the text. An unknown item is ``unsupported``, never an error."""
    hidden = {_SHADOWS[name] for name in _SHADOWS if name in raw}
    for name, value in raw.items():
        if name in hidden or name in _ABOUT_THE_MESSAGE:
            continue
        try:
            attachment = _attachment(name, value)
        except msgspec.ValidationError:
            attachment = {"kind": "unsupported", "type": name}
        if attachment:
            yield attachment


def _attachment(name: str, value: Any) -> dict[str, Any] | None:
    if name == "photo":
        return _photo(msgspec.convert(value, list[_File]))
    if name in _FILES:
        return _file(name, msgspec.convert(value, _File))
    match name:
        case "location":
            return {"kind": name, **msgspec.to_builtins(msgspec.convert(value, _Place))}
        case "venue":
            venue = msgspec.convert(value, _Venue)
            place = msgspec.to_builtins(venue.location)
            return {"kind": name, **place, "title": sanitize.name(venue.title), "address": sanitize.name(venue.address)}
        case "contact":
            contact = msgspec.convert(value, _Contact)
            person = {"name": sanitize.name(f"{contact.first_name} {contact.last_name}")}
            user = {"user_id": str(contact.user_id)} if contact.user_id is not None else {}
            return {"kind": name, "phone_number": sanitize.name(contact.phone_number), **person, **user}
        case "poll":
            poll = msgspec.convert(value, _Poll)
            options = [sanitize.text(option.text) for option in poll.options]
            return {"kind": name, "question": sanitize.text(poll.question), "options": options}
        case "dice":
            return {"kind": name, **msgspec.to_builtins(msgspec.convert(value, _Dice))}
    return {"kind": "unsupported", "type": name} if isinstance(value, dict) else None


def _photo(sizes: Sequence[_File]) -> dict[str, Any] | None:
    """The largest photo that can be downloaded; Telegram lists sizes in ascending order."""
    fitting = [size for size in sizes if (size.file_size or 0) <= DOWNLOAD_BYTES] or sizes
    if not fitting:
        return None
    best = fitting[-1]
    return {**_file("photo", best), "width": best.width, "height": best.height}


def _file(kind: str, file: _File) -> dict[str, Any]:
    facts = {
        "name": None if file.file_name is None else sanitize.file_name(file.file_name),
        "mime": None if file.mime_type is None else sanitize.mime(file.mime_type),
        "size": file.file_size,
        "duration": file.duration,
        "emoji": file.emoji,
        "downloadable": False if (file.file_size or 0) > DOWNLOAD_BYTES else None,
    }
    return {"kind": kind, "file_id": file.file_id, **{name: fact for name, fact in facts.items() if fact is not None}}


def words(raw: dict[str, Any]) -> str:
    """A text for a message that has neither text nor caption."""
    match raw:
        case {"sticker": {"emoji": str(emoji)}} | {"dice": {"emoji": str(emoji)}}:
            return emoji
        case {"poll": {"question": str(question)}}:
            return question
        case {"checklist": value}:
            checklist = msgspec.convert(value, _Checklist)
            return "\n".join([checklist.title, *(f"- {task.text}" for task in checklist.tasks)])
        case {"rich_message": {"blocks": [*blocks]}}:
            return "\n".join(rich_messages.lines(blocks))
    return ""


def shown(raw: Any) -> str:
    """What a quoted message without a text shows, in words: its poll's question, or its files by kind and name."""
    if not isinstance(raw, dict):
        return ""
    with contextlib.suppress(msgspec.ValidationError):
        if said := sanitize.text(words(raw)):
            return said
    return content.files_in_words([each for each in attachments(raw) if each["kind"] != "unsupported"])
