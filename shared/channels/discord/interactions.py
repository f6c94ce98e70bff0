"""Parses interactions and webhook events. Fields that we do not use are ignored.

Source: https://docs.discord.com/developers/interactions/receiving-and-responding#interaction-object.
"""

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import msgspec

from shared.channels import sanitize
from shared.channels.base import Event, ForwardedFrom, Kind
from shared.channels.discord import forms, objects
from shared.channels.discord.objects import DiscordAttachment, DiscordMember, DiscordMessage, DiscordUser, dicts
from shared.core.content import QuotedMessage

ASK = "ask"
FORM = "form"  # the reason of an event that opens a form, which asks for a turn when it is sent
TYPED = (
    "clear",
    "stop",
    "forget",
    "why",
    "start",
)  # slash commands that mean what a person may also type, with what stands behind it

_THREADS = (10, 11, 12)
_GROUP_DM = 3
_GROUP_CONTEXT = 2
_SUBCOMMANDS = (1, 2)
_SLASH_COMMAND = 1
_USER_COMMAND = 2
_MESSAGE_COMMAND = 3
_STRING = 3
_FILE = 11
_FILE_UPLOAD = 19
_TEXT_FIELDS = (4, 21)  # text input, radio group


class _Channel(msgspec.Struct):
    id: str
    type: int = 0
    parent_id: str | None = None
    name: str | None = None


class DiscordInteraction(msgspec.Struct):
    id: str
    token: str
    data: dict[str, Any] = {}
    channel: _Channel | None = None
    channel_id: str | None = None
    guild_id: str | None = None
    member: DiscordMember | None = None
    user: DiscordUser | None = None
    message: DiscordMessage | None = None
    context: int | None = None
    authorizing_integration_owners: dict[str, Any] | None = None

    @property
    def place(self) -> _Channel | None:
        return self.channel or (_Channel(self.channel_id) if self.channel_id else None)

    @property
    def author(self) -> DiscordUser | None:
        return (self.member.user if self.member else None) or self.user

    @property
    def is_group(self) -> bool:
        is_group_dm = self.context == _GROUP_CONTEXT or (self.channel is not None and self.channel.type == _GROUP_DM)
        return self.guild_id is not None or is_group_dm

    @property
    def bot_is_there(self) -> bool:
        """Whether the bot is a member of this conversation, so that it can write there later without a token."""
        owners = self.authorizing_integration_owners
        return self.guild_id is not None if owners is None else "0" in owners


def event_of(kind: Kind, interaction: DiscordInteraction, bot_ids: Collection[str]) -> Event:
    """The event of an interaction; ``ignore`` where Discord named no user or no channel."""
    place, author = interaction.place, interaction.author
    if place is None or author is None:
        return Event("ignore", interaction.id, reason="malformed")
    content = _CONTENT_PARSERS[kind](interaction, bot_ids)
    is_thread = place.type in _THREADS and place.parent_id is not None
    return Event(
        kind,
        interaction.id,
        platform_id=place.parent_id if is_thread else place.id,
        thread_id=place.id if is_thread else None,
        platform_message_id=interaction.id,
        sender=objects.name_of(author, interaction.member),
        sender_id=author.id,
        text=sanitize.text(content.text),
        attachments=tuple(content.attachments),
        is_mention=True,
        is_group=interaction.is_group,
        chat_name="" if is_thread else sanitize.name(place.name or ""),  # Discord names the thread, not its parent
        sent_at_ms=objects.made_at_ms(interaction.id),
        reply_to=content.reply_to,
        forwarded=content.forwarded,
        command=content.command,
        command_args=content.args,
        context=content.facts,
        reason=_reason(kind, interaction.data, content.command),
    )


def _reason(kind: Kind, data: dict[str, Any], command: str | None) -> str | None:
    """Why no agent is asked, or None."""
    type_ = data.get("type", _SLASH_COMMAND)
    is_ours = type_ == _MESSAGE_COMMAND or (type_ == _SLASH_COMMAND and command in (ASK, *TYPED))
    if kind == "modal" or (kind == "command" and is_ours):
        return None
    opens_form = type_ == _USER_COMMAND if kind == "command" else data.get("custom_id") == forms.REPLY
    return FORM if opens_form and kind in ("command", "callback") else f"unsupported:{kind}"


class _Content(msgspec.Struct, frozen=True):
    """The content of an interaction, without its sender and channel."""

    text: str = ""
    attachments: tuple[dict[str, Any], ...] = ()
    reply_to: QuotedMessage | None = None
    command: str | None = None
    args: str | None = None
    facts: dict[str, Any] = msgspec.field(default_factory=dict)
    forwarded: ForwardedFrom | None = None


def _command(interaction: DiscordInteraction, bot_ids: Collection[str]) -> _Content:
    data = interaction.data
    name, options = _path(data)
    if data.get("type") == _USER_COMMAND:
        return _Content(command=name, facts={"target_user_id": str(data.get("target_id"))})
    if data.get("type") == _MESSAGE_COMMAND:
        return _about_message(data, name, bot_ids)
    values = {str(option.get("name")): option.get("value") for option in options if option.get("type") != _FILE}
    values = {key: value for key, value in values.items() if isinstance(value, str | int | float)}
    words = [str(option.get("name")) for option in options if option.get("type") == _STRING]
    text = str(values.pop(next((key for key in ("prompt", *words) if key in values), ""), ""))
    args = text if name in TYPED else None
    if name in TYPED:
        text = f"/{name} {text}".rstrip()
    elif name == ASK and isinstance(values.get("agent"), str):
        text = f"@{values.pop('agent')} {text}"  # as people type it
    facts = {"options": values} if values else {}
    return _Content(text, _option_files(data, options), command=name, args=args, facts=facts)


def _about_message(data: dict[str, Any], name: str, bot_ids: Collection[str]) -> _Content:
    """A command on a message: its text and files are passed on, as its author's."""
    target = msgspec.convert(_resolved(data, "messages", data.get("target_id")) or {}, DiscordMessage)
    quoted = target.quoted(bot_ids)
    by: ForwardedFrom = {"sender_id": quoted["sender_id"], "is_self": quoted["is_self"]}
    facts = {"target_message_id": target.id}
    return _Content(target.text, target.files, quoted, name, facts=facts, forwarded=by)


def _option_files(data: dict[str, Any], options: list[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    return _files(data, (option.get("value") for option in options if option.get("type") == _FILE))


def _files(data: dict[str, Any], ids: Iterable[Any]) -> tuple[dict[str, Any], ...]:
    """The attachments with these ids, where Discord included them in ``resolved``."""
    found = (_resolved(data, "attachments", each) for each in ids)
    return tuple(objects.file(msgspec.convert(file, DiscordAttachment)) for file in found if file)


def _path(data: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """A command's name followed by its subcommands, and the options of the last one."""
    names, options = [str(data.get("name", ""))], dicts(data.get("options"))
    while options and options[0].get("type") in _SUBCOMMANDS:
        names.append(str(options[0].get("name", "")))
        options = dicts(options[0].get("options"))
    return sanitize.name(" ".join(names)), options


def name_in(data: dict[str, Any], user_id: str) -> str:
    """The name of a person whom Discord included in ``resolved``, for people to read; the id without one."""
    user, member = _resolved(data, "users", user_id), _resolved(data, "members", user_id)
    try:
        found = msgspec.convert({**(user or {}), "id": user_id}, DiscordUser)
        return objects.name_of(found, msgspec.convert(member, DiscordMember) if member else None)
    except msgspec.ValidationError:
        return user_id


def _resolved(data: dict[str, Any], table: str, key: Any) -> dict[str, Any] | None:
    """The object with this id, where Discord included it in ``resolved``."""
    tables = data.get("resolved")
    entries = tables.get(table) if isinstance(tables, dict) else None
    entry = entries.get(key) if isinstance(entries, dict) and isinstance(key, str) else None
    return entry if isinstance(entry, dict) else None


def _callback(interaction: DiscordInteraction, bot_ids: Collection[str]) -> _Content:
    values = interaction.data.get("values")
    facts: dict[str, Any] = {"values": values} if isinstance(values, list) else {}
    if interaction.message:
        facts["message_id"] = interaction.message.id
    return _Content(
        str(interaction.data.get("custom_id", "")), reply_to=_quoted(interaction.message, bot_ids), facts=facts
    )


def _quoted(message: DiscordMessage | None, bot_ids: Collection[str]) -> QuotedMessage | None:
    return message.quoted(bot_ids) if message else None


def _autocomplete(interaction: DiscordInteraction, _: Collection[str]) -> _Content:
    name, options = _path(interaction.data)
    focused: dict[str, Any] = next((option for option in options if option.get("focused")), {})
    facts = {"focused": focused.get("name"), "value": focused.get("value")}
    return _Content(command=name, facts=facts)


def _modal(interaction: DiscordInteraction, bot_ids: Collection[str]) -> _Content:
    inputs = list(_inputs(interaction.data.get("components")))
    fields = {str(item["custom_id"]): item.get("value", item.get("values")) for item in inputs}
    texts = (item.get("value") for item in inputs if item.get("type") in _TEXT_FIELDS)
    text = next((text for text in texts if isinstance(text, str) and text), "")
    uploads = (item.get("values") for item in inputs if item.get("type") == _FILE_UPLOAD)
    ids = (id_ for values in uploads if isinstance(values, list) for id_ in values)
    custom_id = str(interaction.data.get("custom_id", ""))
    return _Content(
        forms.with_subject(custom_id, text),
        _files(interaction.data, ids),
        reply_to=_quoted(interaction.message, bot_ids),
        facts={"custom_id": custom_id, "fields": fields},
    )


def _inputs(components: Any) -> Iterator[dict[str, Any]]:
    """The filled-in fields: inside labels today, inside action rows in older forms."""
    for component in dicts(components):
        yield from _inputs(component.get("components"))
        yield from _inputs([component.get("component")])
        if "custom_id" in component:
            yield component


_CONTENT_PARSERS: dict[Kind, Callable[[DiscordInteraction, Collection[str]], _Content]] = {
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
