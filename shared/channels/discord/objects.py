"""Discord's objects, as far as we use them, and what they say in the terms that all channels share.

Fields that we do not use are ignored. Source: https://docs.discord.com/developers/resources/message#message-object,
https://docs.discord.com/developers/resources/user#user-object, https://docs.discord.com/developers/components/reference,
https://docs.discord.com/developers/resources/sticker#sticker-item-object,
https://docs.discord.com/developers/resources/poll#poll-object, https://docs.discord.com/developers/reference#image-formatting.
"""

import re
from collections.abc import Collection, Iterator
from typing import Any

import msgspec

from shared.channels import sanitize
from shared.core.content import QuotedMessage

_DISCORDS_EPOCH_MS = 1_420_070_400_000
_SHOWN_AS_ITSELF = ("image", "video", "audio")
_TEXT = 10
_STICKER_FILES = {  # by the format of a sticker; the third one, Lottie, is a drawing in JSON and no picture
    1: ("https://cdn.discordapp.com/stickers/{}.png", "image/png"),
    2: ("https://cdn.discordapp.com/stickers/{}.png", "image/png"),
    4: ("https://media.discordapp.net/stickers/{}.gif", "image/gif"),
}


class DiscordUser(msgspec.Struct):
    id: str
    username: str | None = None
    global_name: str | None = None
    bot: bool = False


class DiscordMember(msgspec.Struct):
    user: DiscordUser | None = None
    nick: str | None = None


class DiscordAttachment(msgspec.Struct):
    url: str
    filename: str = ""
    content_type: str | None = None
    size: int | None = None


class DiscordSticker(msgspec.Struct):
    id: str
    name: str = ""
    format_type: int = 0


class _PollMedia(msgspec.Struct, frozen=True):
    text: str | None = None


class _PollAnswer(msgspec.Struct, frozen=True):
    poll_media: _PollMedia = _PollMedia()


class DiscordPoll(msgspec.Struct, frozen=True):
    question: _PollMedia = _PollMedia()
    answers: list[_PollAnswer] = []


class DiscordWords(msgspec.Struct, kw_only=True):
    """What a message says and brings along."""

    content: str = ""
    attachments: list[DiscordAttachment] = []
    components: list[Any] = []
    sticker_items: list[DiscordSticker] = []
    poll: DiscordPoll | None = None

    @property
    def text(self) -> str:
        """What it says, also where the text stands in components or in a poll instead of ``content``."""
        asked = self.poll.question.text if self.poll else None
        return self.content or "\n".join(texts(self.components)) or asked or ""

    @property
    def files(self) -> tuple[dict[str, Any], ...]:
        """Its attachments, stickers and poll in the terms that all channels share."""
        polls = () if self.poll is None else (_poll(self.poll),)
        return (*map(file, self.attachments), *map(_sticker, self.sticker_items), *polls)


class DiscordMessage(DiscordWords, kw_only=True):
    """A message that another object contains: the one replied to, pressed on, or asked about."""

    id: str
    author: DiscordUser | None = None

    def quoted(self, bot_ids: Collection[str]) -> QuotedMessage:
        """The message as one that is replied to."""
        author = self.author.id if self.author else None
        text = sanitize.text(self.text)
        return {"message_id": self.id, "text": text, "sender_id": author, "is_self": author in bot_ids}


def name_of(user: DiscordUser | None, member: DiscordMember | None) -> str:
    """The name that others see: of the server, else the person's own, else the account's; else the id."""
    names = (member and member.nick, user and user.global_name, user and user.username)
    return next(filter(None, (sanitize.name(name) for name in names if name)), user.id if user else "")


def file(given: DiscordAttachment) -> dict[str, Any]:
    """An attachment in the terms that all channels share."""
    mime = sanitize.mime(given.content_type or "")
    family = (mime or "").partition("/")[0]
    facts = {"name": sanitize.file_name(given.filename), "mime": mime, "size": given.size}
    kind = family if family in _SHOWN_AS_ITSELF else "file"
    return {"kind": kind, "url": given.url, **{name: fact for name, fact in facts.items() if fact is not None}}


def _sticker(given: DiscordSticker) -> dict[str, Any]:
    """A sticker: a picture by its address, where it is one."""
    name = sanitize.name(given.name)
    found = _STICKER_FILES.get(given.format_type)
    if found is None or not re.fullmatch("[0-9]{1,20}", given.id):
        return {"kind": "sticker", "name": name}
    address, mime = found
    return {
        "kind": "sticker",
        "url": address.format(given.id),
        "name": sanitize.file_name(f"{name}.{mime[6:]}"),
        "mime": mime,
    }


def _poll(given: DiscordPoll) -> dict[str, Any]:
    options = [sanitize.text(each.poll_media.text or "") for each in given.answers]
    return {"kind": "poll", "question": sanitize.text(given.question.text or ""), "options": options}


def dicts(values: Any) -> list[dict[str, Any]]:
    """The objects of a list; empty where it is no list."""
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def texts(components: Any) -> Iterator[str]:
    """The texts among the components, in the order in which they are read."""
    for component in dicts(components):
        content = component.get("content")
        if component.get("type") == _TEXT and isinstance(content, str):
            yield content
        yield from texts(component.get("components"))


def made_at_ms(id_: str) -> int | None:
    """When Discord made the object: its id says so. https://docs.discord.com/developers/reference#snowflakes"""
    return (int(id_) >> 22) + _DISCORDS_EPOCH_MS if re.fullmatch("[0-9]{15,20}", id_) else None
