"""Parses what Discord sends. Fields that we do not use are ignored.

Source: https://docs.discord.com/developers/interactions/receiving-and-responding#interaction-object.
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from shared.channels import sanitize
from shared.channels.base import Event, ForwardedFrom, Kind
from shared.core.content import QuotedMessage

ASK = "ask"

_THREADS = (10, 11, 12)
_GROUP_DM = 3
_GROUP_CONTEXT = 2
_SUBCOMMANDS = (1, 2)
_SLASH_COMMAND = 1
_USER_COMMAND = 2
_MESSAGE_COMMAND = 3
_STRING = 3
_FILE = 11


class _User(msgspec.Struct):
    id: str
    username: str | None = None
    global_name: str | None = None


class _Member(msgspec.Struct):
    user: _User | None = None
    nick: str | None = None


class _Channel(msgspec.Struct):
    id: str
    type: int = 0
    parent_id: str | None = None
    name: str | None = None


class _Attachment(msgspec.Struct):
    url: str
    filename: str = ""
    content_type: str | None = None
    size: int | None = None


class _Message(msgspec.Struct):
    id: str
    content: str = ""
    author: _User | None = None
    attachments: list[_Attachment] = []


class DiscordInteraction(msgspec.Struct):
    id: str
    token: str
    data: dict[str, Any] = {}
    channel: _Channel | None = None
    channel_id: str | None = None
    guild_id: str | None = None
    member: _Member | None = None
    user: _User | None = None
    message: _Message | None = None
    context: int | None = None
    authorizing_integration_owners: dict[str, Any] | None = None

    @property
    def place(self) -> _Channel | None:
        return self.channel or (_Channel(self.channel_id) if self.channel_id else None)

    @property
    def author(self) -> _User | None:
        return (self.member.user if self.member else None) or self.user

    @property
    def author_name(self) -> str:
        author = self.author
        names = (self.member and self.member.nick, author and author.global_name, author and author.username)
        return next(filter(None, (sanitize.name(name) for name in names if name)), author.id if author else "")

    @property
    def is_group(self) -> bool:
        is_group_dm = self.context == _GROUP_CONTEXT or (self.channel is not None and self.channel.type == _GROUP_DM)
        return self.guild_id is not None or is_group_dm

    @property
    def bot_is_there(self) -> bool:
        """Whether the bot is a member of this conversation, so that it can write there later without a token."""
        owners = self.authorizing_integration_owners
        return self.guild_id is not None if owners is None else "0" in owners


def event_of(kind: Kind, interaction: DiscordInteraction, application_id: str) -> Event:
    """The event of an interaction; ``ignore`` where Discord named no user or no channel."""
    place, author = interaction.place, interaction.author
    if place is None or author is None:
        return Event("ignore", interaction.id, reason="malformed")
    content = _CONTENT_PARSERS[kind](interaction, application_id)
    is_thread = place.type in _THREADS and place.parent_id is not None
    is_slash = interaction.data.get("type", _SLASH_COMMAND) == _SLASH_COMMAND
    return Event(
        kind,
        interaction.id,
        platform_id=place.parent_id if is_thread else place.id,
        thread_id=place.id if is_thread else None,
        platform_message_id=interaction.id,
        sender=interaction.author_name,
        sender_id=author.id,
        text=sanitize.text(content.text),
        attachments=tuple(content.attachments),
        is_mention=True,
        is_group=interaction.is_group,
        chat_name="" if is_thread else sanitize.name(place.name or ""),  # Discord names the thread, not its parent
        sent_at_ms=_made_at_ms(interaction.id),
        reply_to=content.reply_to,
        forwarded=content.forwarded,
        command=content.command,
        context=content.facts,
        reason=None if kind == "command" and content.command == ASK and is_slash else f"unsupported:{kind}",
    )


_DISCORDS_EPOCH_MS = 1_420_070_400_000


def _made_at_ms(id_: str) -> int | None:
    """When Discord made the object: its id says so. https://docs.discord.com/developers/reference#snowflakes"""
    return (int(id_) >> 22) + _DISCORDS_EPOCH_MS if re.fullmatch("[0-9]{15,20}", id_) else None


@dataclass(frozen=True, slots=True)
class _Content:
    """The content of an interaction, without its sender and channel."""

    text: str = ""
    attachments: tuple[dict[str, Any], ...] = ()
    reply_to: QuotedMessage | None = None
    command: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    forwarded: ForwardedFrom | None = None


def _command(interaction: DiscordInteraction, application_id: str) -> _Content:
    data = interaction.data
    name, options = _path(data)
    if data.get("type") == _USER_COMMAND:
        return _Content(command=name, facts={"target_user_id": str(data.get("target_id"))})
    if data.get("type") == _MESSAGE_COMMAND:
        target = msgspec.convert(_resolved(data, "messages", data.get("target_id")) or {}, _Message)
        files = tuple(map(_file, target.attachments))
        facts = {"target_message_id": target.id}
        quoted = _quoted(target, application_id)
        by: ForwardedFrom = {"sender_id": quoted["sender_id"], "is_self": quoted["is_self"]}
        return _Content(target.content, files, quoted, name, facts, by)
    found = (_resolved(data, "attachments", option.get("value")) for option in options if option.get("type") == _FILE)
    files = tuple(_file(msgspec.convert(file, _Attachment)) for file in found if file)
    values = {str(option.get("name")): option.get("value") for option in options if option.get("type") != _FILE}
    values = {key: value for key, value in values.items() if isinstance(value, str | int | float)}
    words = [str(option.get("name")) for option in options if option.get("type") == _STRING]
    text = values.pop(next((key for key in ("prompt", *words) if key in values), ""), "")
    return _Content(str(text), files, command=name, facts={"options": values} if values else {})


def _path(data: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """A command's name followed by its subcommands, and the options of the last one."""
    names, options = [str(data.get("name", ""))], _dicts(data.get("options"))
    while options and options[0].get("type") in _SUBCOMMANDS:
        names.append(str(options[0].get("name", "")))
        options = _dicts(options[0].get("options"))
    return sanitize.name(" ".join(names)), options


def _dicts(values: Any) -> list[dict[str, Any]]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _resolved(data: dict[str, Any], table: str, key: Any) -> dict[str, Any] | None:
    """The object with this id, where Discord included it in ``resolved``."""
    tables = data.get("resolved")
    entries = tables.get(table) if isinstance(tables, dict) else None
    entry = entries.get(key) if isinstance(entries, dict) and isinstance(key, str) else None
    return entry if isinstance(entry, dict) else None


def _file(file: _Attachment) -> dict[str, Any]:
    facts = {
        "name": sanitize.file_name(file.filename),
        "mime": sanitize.mime(file.content_type or ""),
        "size": file.size,
    }
    return {"kind": "file", "url": file.url, **{name: fact for name, fact in facts.items() if fact is not None}}


def _quoted(message: _Message, application_id: str) -> QuotedMessage:
    author = message.author.id if message.author else None
    text = sanitize.text(message.content)
    return {"message_id": message.id, "text": text, "sender_id": author, "is_self": author == application_id}


def _callback(interaction: DiscordInteraction, application_id: str) -> _Content:
    values = interaction.data.get("values")
    reply_to = _quoted(interaction.message, application_id) if interaction.message else None
    facts: dict[str, Any] = {"values": values} if isinstance(values, list) else {}
    if interaction.message:
        facts["message_id"] = interaction.message.id
    return _Content(str(interaction.data.get("custom_id", "")), reply_to=reply_to, facts=facts)


def _autocomplete(interaction: DiscordInteraction, application_id: str) -> _Content:
    name, options = _path(interaction.data)
    focused: dict[str, Any] = next((option for option in options if option.get("focused")), {})
    facts = {"focused": focused.get("name"), "value": focused.get("value")}
    return _Content(command=name, facts=facts)


def _modal(interaction: DiscordInteraction, application_id: str) -> _Content:
    inputs = list(_inputs(interaction.data.get("components")))
    fields = {str(item["custom_id"]): item.get("value", item.get("values")) for item in inputs}
    text = "\n".join(value for value in fields.values() if isinstance(value, str))
    reply_to = _quoted(interaction.message, application_id) if interaction.message else None
    facts = {"custom_id": str(interaction.data.get("custom_id", "")), "fields": fields}
    return _Content(text, reply_to=reply_to, facts=facts)


def _inputs(components: Any) -> Iterator[dict[str, Any]]:
    """The filled-in fields: inside labels today, inside action rows in older forms."""
    for component in _dicts(components):
        yield from _inputs(component.get("components"))
        yield from _inputs([component.get("component")])
        if "custom_id" in component:
            yield component


_CONTENT_PARSERS: dict[Kind, Callable[[DiscordInteraction, str], _Content]] = {
    "command": _command,
    "callback": _callback,
    "autocomplete": _autocomplete,
    "modal": _modal,
}


def webhook_event(name: str, event: dict[str, Any], key: str) -> Event:
    """The event of an installation or a removal; every other webhook event is ignored."""
    match name, event.get("data"):
        case (("APPLICATION_AUTHORIZED" | "APPLICATION_DEAUTHORIZED"), {"user": {"id": str(user)}, **data}):
            guild = data.get("guild")
            status = name.removeprefix("APPLICATION_").lower()
            facts = {"status": status, "guild_id": guild.get("id") if isinstance(guild, dict) else None}
            return Event("membership", key, sender_id=user, context=facts)
    return Event("ignore", key, reason=name if re.fullmatch(r"[A-Z_]{1,64}", name) else "unknown_event")


def digest(body: bytes) -> str:
    """The key of an event without an id; a redelivery has the same bytes."""
    return "body:" + hashlib.blake2b(body, digest_size=16).hexdigest()
