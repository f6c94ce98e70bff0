"""Parses frames of Discord's Gateway, as the relay forwards them: messages typed to the bot, and what becomes of them.

A frame is ``{"op": 0, "t": name, "s": number, "d": object}``. The relay adds ``x_parent_id``, the channel of a thread:
frames of messages do not say it.

Source: https://docs.discord.com/developers/events/gateway-events#message-create and the events after it.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime
from functools import partial

import msgspec

from shared.channels import sanitize
from shared.channels.base import Event, ForwardedFrom, Kind
from shared.channels.discord import objects
from shared.channels.discord.objects import DiscordMember, DiscordMessage, DiscordUser, DiscordWords
from shared.core import content
from shared.core.content import QuotedMessage

_WRITTEN_BY_PEOPLE = (0, 19)  # an ordinary message, and a reply
_GROUP_DM = 3
_FORWARD = 1
_LONGEST_NAME = 80  # of a person, in the name of a thread, which has at most 100 characters


class _Reference(msgspec.Struct):
    type: int = 0
    message_id: str | None = None


class _Forwarded(msgspec.Struct):
    """A message that is passed on; Discord hides its author."""

    message: DiscordWords


class _Named(msgspec.Struct):
    id: str


class _Typed(DiscordWords, kw_only=True):
    """``MESSAGE_CREATE`` and ``MESSAGE_UPDATE``."""

    id: str
    channel_id: str
    author: DiscordUser
    type: int = 0
    mentions: list[_Named] = msgspec.field(default_factory=list)
    edited_timestamp: datetime | None = None
    channel_type: int = 0
    guild_id: str | None = None
    member: DiscordMember | None = None
    webhook_id: str | None = None
    message_reference: _Reference | None = None
    referenced_message: DiscordMessage | None = None
    message_snapshots: list[_Forwarded] = msgspec.field(default_factory=list)

    @property
    def shown(self) -> DiscordWords:
        """What it shows: a forwarded message has no text of its own."""
        is_forward = self.message_reference is not None and self.message_reference.type == _FORWARD
        return self.message_snapshots[0].message if is_forward and self.message_snapshots else self

    @property
    def is_forward(self) -> bool:
        return self.shown is not self


class _Emoji(msgspec.Struct):
    id: str | None = None
    name: str | None = None

    @property
    def word(self) -> str:
        return f"custom:{self.id}" if self.id else sanitize.name(self.name or "")


class _Reaction(msgspec.Struct):
    user_id: str
    message_id: str
    channel_id: str
    emoji: _Emoji
    guild_id: str | None = None
    member: DiscordMember | None = None


class _Deleted(msgspec.Struct):
    id: str
    channel_id: str
    guild_id: str | None = None


def event_of(name: object, data: object, parent_id: object, key: str, bot_ids: Collection[str]) -> Event:
    """The event of one frame; ``ignore`` where we do not use it.

    Args:
        parent_id: of the thread in which it happened, as the relay says; None outside of threads.
        key: the same on every repetition of this frame.
        bot_ids: the ids by which a message mentions the bot.
    """
    parse = _PARSERS.get(name) if isinstance(name, str) else None
    if parse is None:
        return Event("ignore", key, reason="unknown_event")
    try:
        event = parse(data, key, bot_ids)
    except msgspec.ValidationError:
        return Event("ignore", key, reason="malformed")
    if isinstance(parent_id, str) and re.fullmatch("[0-9]{1,20}", parent_id):
        return replace(event, platform_id=parent_id, thread_id=event.platform_id)
    return event


def in_own_thread(event: Event) -> Event:
    """A mention in a server's channel, as the beginning of a thread of its own; every other event as it is.

    The thread does not exist yet: ``send`` makes it. A thread has the id of the message that it is made from.
    """
    begins = event.kind == "message" and event.is_group and event.is_mention and event.thread_id is None
    if not begins or event.platform_message_id is None:
        return event
    name = f"{event.sender[:_LONGEST_NAME]}'s question"  # not its text, which a notice of ours must not hold
    context = {**event.context, "makes_thread": name}
    return replace(event, thread_id=event.platform_message_id, context=context)


def _created(data: object, key: str, bot_ids: Collection[str]) -> Event:
    message = msgspec.convert(data, _Typed)
    return _message("message", f"MESSAGE_CREATE:{message.id}", message, bot_ids)


def _edited(data: object, key: str, bot_ids: Collection[str]) -> Event:
    message = msgspec.convert(data, _Typed)
    key = f"MESSAGE_UPDATE:{message.id}:{message.edited_timestamp}"
    if message.edited_timestamp is None:  # Discord added the preview of a link
        return Event("ignore", key, reason="not_edited")
    event = _message("edit", key, message, bot_ids)
    edited_at_ms = int(message.edited_timestamp.timestamp() * 1000)
    return replace(event, edited=True, sent_at_ms=edited_at_ms, first_sent_at_ms=event.sent_at_ms)


def _message(kind: Kind, key: str, message: _Typed, bot_ids: Collection[str]) -> Event:
    shown = message.shown
    text = sanitize.text(shown.text)
    reason = _reason_to_ignore(message, text)
    if reason is not None:
        return Event("ignore", key, reason=reason)
    reply_to = _reply_to(message, bot_ids)
    is_direct = message.guild_id is None and message.channel_type != _GROUP_DM
    is_called = any(each.id in bot_ids for each in message.mentions) or bool(reply_to and reply_to.get("is_self"))
    return Event(
        kind,
        key,
        platform_id=message.channel_id,
        platform_message_id=message.id,
        sender=objects.name_of(message.author, message.member),
        sender_id=message.author.id,
        text=text,
        attachments=shown.files,
        is_mention=is_direct or is_called,
        is_group=not is_direct,
        mention=_leading_mention(text, bot_ids),
        sent_at_ms=objects.made_at_ms(message.id),
        reply_to=reply_to,
        forwarded=ForwardedFrom(sender_id=None, is_self=False) if message.is_forward else None,
        context={"guild_id": message.guild_id, "bot_is_there": True},
    )


def _reason_to_ignore(message: _Typed, text: str) -> str | None:
    if message.webhook_id is not None:
        return "webhook"
    if message.author.bot:
        return "from_bot"
    if message.type not in _WRITTEN_BY_PEOPLE:
        return f"system:{message.type}"
    return None if text or message.shown.files else "empty_message"


def _reply_to(message: _Typed, bot_ids: Collection[str]) -> QuotedMessage | None:
    """The message that it replies to, with its files in words where it has no text; its id alone if it was deleted."""
    reference = message.message_reference
    if message.is_forward or reference is None or reference.message_id is None:
        return None
    if (replied := message.referenced_message) is not None:
        found = replied.quoted(bot_ids)
        return {**found, "text": found["text"] or content.files_in_words(replied.files)}
    return {"message_id": reference.message_id, "text": "", "sender_id": None, "is_self": False}


def _leading_mention(text: str, bot_ids: Collection[str]) -> str:
    found = re.match(r"\s*<@!?([0-9]{1,20})>\s*", text)
    return found[0] if found and found[1] in bot_ids else ""


def _deleted(data: object, key: str, _: Collection[str]) -> Event:
    deleted = msgspec.convert(data, _Deleted)
    return Event(
        "delete",
        f"MESSAGE_DELETE:{deleted.id}",
        platform_id=deleted.channel_id,
        platform_message_id=deleted.id,
        is_group=deleted.guild_id is not None,
    )


def _reaction(data: object, key: str, bot_ids: Collection[str], *, added: bool) -> Event:
    reaction = msgspec.convert(data, _Reaction)
    if reaction.user_id in bot_ids:
        return Event("ignore", key, reason="from_bot")
    user = reaction.member.user if reaction.member else None
    emoji = [reaction.emoji.word]
    return Event(
        "reaction",
        key,
        platform_id=reaction.channel_id,
        platform_message_id=reaction.message_id,
        sender=objects.name_of(user or DiscordUser(reaction.user_id), reaction.member),
        sender_id=reaction.user_id,
        is_group=reaction.guild_id is not None,
        context={"added": emoji if added else [], "removed": [] if added else emoji},
    )


_PARSERS: dict[str, Callable[[object, str, Collection[str]], Event]] = {
    "MESSAGE_CREATE": _created,
    "MESSAGE_UPDATE": _edited,
    "MESSAGE_DELETE": _deleted,
    "MESSAGE_REACTION_ADD": partial(_reaction, added=True),
    "MESSAGE_REACTION_REMOVE": partial(_reaction, added=False),
}
