"""What Telegram sends, read: only what is used of an update, everything else ignored.

Source: https://core.telegram.org/bots/api (10.3): #update, #message, #callbackquery, #chatmemberupdated.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from shared.channels import sanitize
from shared.channels.base import Event, Kind
from shared.errors import PayloadInvalid

DOWNLOAD_BYTES = 20 * 1024 * 1024  # what getFile serves at most


class _User(msgspec.Struct):
    id: int
    is_bot: bool = False
    first_name: str = ""
    last_name: str = ""
    username: str = ""

    @property
    def name(self) -> str:
        return sanitize.name(f"{self.first_name} {self.last_name}") or sanitize.name(self.username) or str(self.id)


class _Chat(msgspec.Struct):
    id: int
    type: str = ""
    title: str = ""
    first_name: str = ""
    last_name: str = ""
    username: str = ""
    is_direct_messages: bool = False

    @property
    def name(self) -> str:
        own = sanitize.name(self.title) or sanitize.name(f"{self.first_name} {self.last_name}")
        return own or sanitize.name(self.username) or str(self.id)


class _Entity(msgspec.Struct):
    type: str
    offset: int
    length: int
    user: _User | None = None


class _Origin(msgspec.Struct):
    sender_user: _User | None = None
    sender_user_name: str = ""
    sender_chat: _Chat | None = None
    chat: _Chat | None = None

    @property
    def name(self) -> str:
        origin = self.sender_user or self.sender_chat or self.chat
        return origin.name if origin else sanitize.name(self.sender_user_name)


class _Topic(msgspec.Struct):
    topic_id: int


class _Quote(msgspec.Struct):
    text: str = ""


class _Message(msgspec.Struct, rename={"sender": "from"}):
    message_id: int
    chat: _Chat
    sender: _User | None = None
    sender_chat: _Chat | None = None
    text: str = ""
    caption: str = ""
    entities: list[_Entity] = []
    caption_entities: list[_Entity] = []
    message_thread_id: int | None = None
    is_topic_message: bool = False
    direct_messages_topic: _Topic | None = None
    reply_to_message: "_Message | None" = None
    forum_topic_created: dict[str, Any] | None = None
    quote: _Quote | None = None
    via_bot: _User | None = None
    media_group_id: str | None = None
    forward_origin: _Origin | None = None
    ephemeral_message_id: int | None = None
    migrate_to_chat_id: int | None = None
    migrate_from_chat_id: int | None = None

    @property
    def author(self) -> _User | _Chat:
        """A chat that speaks wins over the stand-in user that Telegram names beside it."""
        return self.sender_chat or self.sender or self.chat

    @property
    def thread_id(self) -> str | None:
        """Without ``is_topic_message`` the number only marks a chain of replies."""
        if self.direct_messages_topic:
            return f"dm:{self.direct_messages_topic.topic_id}"
        is_topic = self.is_topic_message and self.message_thread_id is not None
        return str(self.message_thread_id) if is_topic else None


class _Callback(msgspec.Struct, rename={"sender": "from"}):
    id: str
    sender: _User
    message: _Message | None = None
    data: str = ""


class _Reaction(msgspec.Struct):
    chat: _Chat
    message_id: int
    user: _User | None = None
    actor_chat: _Chat | None = None
    old_reaction: list[dict[str, Any]] = []
    new_reaction: list[dict[str, Any]] = []


class _Member(msgspec.Struct):
    status: str


class _Membership(msgspec.Struct, rename={"sender": "from"}):
    chat: _Chat
    sender: _User
    old_chat_member: _Member
    new_chat_member: _Member


class _Stopped(msgspec.Struct):
    chat: _Chat
    draft_id: int
    message_thread_id: int | None = None


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


_MESSAGES: dict[str, Kind] = {
    "message": "message",
    "channel_post": "message",
    "edited_message": "edit",
    "edited_channel_post": "edit",
}
_IGNORED_UPDATES = (
    "business_connection", "business_message", "edited_business_message", "deleted_business_messages", "guest_message",
    "message_reaction_count", "inline_query", "chosen_inline_result", "shipping_query", "pre_checkout_query",
    "purchased_paid_media", "poll", "poll_answer", "chat_member", "chat_join_request", "chat_boost",
    "removed_chat_boost", "managed_bot", "subscription",
)  # fmt: skip
_SERVICE = (
    "new_chat_members", "left_chat_member", "chat_owner_left", "chat_owner_changed", "new_chat_title",
    "new_chat_photo", "delete_chat_photo", "group_chat_created", "supergroup_chat_created", "channel_chat_created",
    "message_auto_delete_timer_changed", "pinned_message", "successful_payment", "refunded_payment", "users_shared",
    "chat_shared", "gift", "unique_gift", "gift_upgrade_sent", "connected_website", "write_access_allowed",
    "passport_data", "proximity_alert_triggered", "boost_added", "chat_background_set", "checklist_tasks_done",
    "checklist_tasks_added", "direct_message_price_changed", "forum_topic_created", "forum_topic_edited",
    "forum_topic_closed", "forum_topic_reopened", "general_forum_topic_hidden", "general_forum_topic_unhidden",
    "giveaway_created", "giveaway_completed", "managed_bot_created", "paid_message_price_changed", "poll_option_added",
    "poll_option_deleted", "suggested_post_approved", "suggested_post_approval_failed", "suggested_post_declined",
    "suggested_post_paid", "suggested_post_refunded", "video_chat_scheduled", "video_chat_started",
    "video_chat_ended", "video_chat_participants_invited", "web_app_data",
)  # fmt: skip
_FILES = ("live_photo", "animation", "audio", "document", "sticker", "video", "video_note", "voice")
_SHADOWS = {"animation": "document", "venue": "location", "live_photo": "photo"}
_ABOUT_THE_MESSAGE = frozenset({
    "from", "chat", "sender_chat", "direct_messages_topic", "sender_business_bot", "forward_origin", "forward_from",
    "forward_from_chat", "reply_to_message", "external_reply", "quote", "reply_to_story", "via_bot", "receiver_user",
    "guest_bot_caller_user", "guest_bot_caller_chat", "link_preview_options", "suggested_post_info", "reply_markup",
    "rich_message", "checklist",
})  # fmt: skip


class Reader:
    """Reads for one bot, who knows itself by its id and its @name."""

    def __init__(self, bot_id: int, username: str) -> None:
        self._bot_id = bot_id
        self._mention = "@" + username.removeprefix("@").lower()

    def read(self, body: bytes) -> Event:
        """The event of one update, ``ignore`` where nothing can be made of it.

        Raises:
            PayloadInvalid: this is no update; what is not even JSON raises what msgspec does.
        """
        return self._event(*_envelope(body))

    def _event(self, update_id: int, update: dict[str, Any]) -> Event:
        key = f"{self._bot_id}:{update_id}"
        try:
            return self._read(key, update)
        except msgspec.ValidationError:
            return Event("ignore", key, reason="malformed")

    def _read(self, key: str, update: dict[str, Any]) -> Event:
        for name, kind in _MESSAGES.items():
            if name in update:
                return self._message(key, kind, update[name])
        for name, read in _READERS.items():
            if name in update:
                return read(key, update[name])
        reason = next((name for name in _IGNORED_UPDATES if name in update), "unknown_update_type")
        return Event("ignore", key, reason=reason)

    def _message(self, key: str, kind: Kind, raw: Any) -> Event:
        message = msgspec.convert(raw, _Message)
        event = replace(_in_chat(key, kind, message.chat, message.author), thread_id=message.thread_id)
        old, new = message.migrate_from_chat_id, message.migrate_to_chat_id
        if old is not None or new is not None:
            ids = {"old_platform_id": str(old or message.chat.id), "new_platform_id": str(new or message.chat.id)}
            return replace(event, kind="migrate", context=ids)
        reason = self._reason_to_ignore(message, raw)
        if reason:
            return replace(event, kind="ignore", reason=reason)
        text = message.text or message.caption
        command, args = self._command(message, text)
        reply_to = self._reply_to(message)
        is_called = command is not None or bool(reply_to and reply_to["is_self"]) or self._is_named(message, text)
        return replace(
            event,
            platform_message_id=str(message.message_id),
            text=sanitize.text(text or _text_of(raw)),
            attachments=tuple(_attachments(raw)),
            is_mention=event.is_mention or is_called,
            reply_to=reply_to,
            edited=kind == "edit",
            command=command,
            command_args=args,
            context=_context(message),
        )

    def _reason_to_ignore(self, message: _Message, raw: dict[str, Any]) -> str | None:
        service = next((name for name in _SERVICE if name in raw), None)  # may be empty objects: present is enough
        if service:
            return f"service:{service}"
        if message.via_bot and message.via_bot.id == self._bot_id:
            return "via_self"
        is_bot = message.sender is not None and message.sender.is_bot and message.sender_chat is None
        return "from_bot" if is_bot else None

    def _command(self, message: _Message, text: str) -> tuple[str | None, str | None]:
        """The command to us at the very start of the text, and the rest; (None, None) if there is none."""
        for entity in message.entities if message.text else message.caption_entities:
            if entity.type == "bot_command" and entity.offset == 0:
                name, _, bot = _units(text, 0, entity.length).partition("@")
                if not bot or "@" + bot.lower() == self._mention:
                    rest = _units(text, entity.length, len(text) * 2)
                    return sanitize.name(name.removeprefix("/")), sanitize.text(rest).strip()
        return None, None

    def _is_named(self, message: _Message, text: str) -> bool:
        """By @username or by a mention without one. A name inside code has no entity, and is none."""
        for entity in message.entities if message.text else message.caption_entities:
            if entity.type == "mention" and _units(text, entity.offset, entity.length).lower() == self._mention:
                return True
            if entity.type == "text_mention" and entity.user and entity.user.id == self._bot_id:
                return True
        return False

    def _reply_to(self, message: _Message) -> dict[str, Any] | None:
        """The message answered; a topic's first message is where it hangs, not what it answers."""
        original = message.reply_to_message
        if original is None or original.forum_topic_created is not None:
            return None
        is_self = original.sender is not None and original.sender.id == self._bot_id and original.sender_chat is None
        text = sanitize.text(original.text or original.caption)
        author = str(original.author.id)
        return {"message_id": str(original.message_id), "text": text, "sender_id": author, "is_self": is_self}


def _envelope(body: bytes) -> tuple[int, dict[str, Any]]:
    update = msgspec.json.decode(body)
    update_id = update.get("update_id") if isinstance(update, dict) else None
    if not isinstance(update_id, int) or isinstance(update_id, bool):
        raise PayloadInvalid("no update_id: not an update")
    return update_id, update


def _in_chat(key: str, kind: Kind, chat: _Chat, author: _User | _Chat) -> Event:
    return Event(
        kind,
        key,
        platform_id=str(chat.id),
        sender=author.name,
        sender_id=str(author.id),
        is_mention=chat.type == "private" or chat.is_direct_messages,
        is_group=chat.type != "private",
        chat_name=sanitize.name(chat.title),
    )


def _callback(key: str, raw: Any) -> Event:
    callback = msgspec.convert(raw, _Callback)
    message = callback.message
    if message is None:  # a button under an inline message: there is no chat to answer in
        return Event("ignore", key, sender_id=str(callback.sender.id), reason="callback_without_chat")
    return replace(
        _in_chat(key, "callback", message.chat, callback.sender),
        thread_id=message.thread_id,
        platform_message_id=str(message.message_id),
        text=sanitize.text(callback.data),
        is_mention=True,
        context={"callback_id": callback.id, "message_id": str(message.message_id)},
    )


def _reaction(key: str, raw: Any) -> Event:
    reaction = msgspec.convert(raw, _Reaction)
    old, new = (list(map(_emoji, side)) for side in (reaction.old_reaction, reaction.new_reaction))
    changes = {
        "reactions_added": [emoji for emoji in new if emoji not in old],
        "reactions_removed": [emoji for emoji in old if emoji not in new],
    }
    author = reaction.user or reaction.actor_chat or reaction.chat
    event = _in_chat(key, "reaction", reaction.chat, author)
    return replace(event, platform_message_id=str(reaction.message_id), context=changes)


def _emoji(reaction: dict[str, Any]) -> str:
    match reaction:
        case {"type": "emoji", "emoji": str(emoji)}:
            return emoji
        case {"type": "custom_emoji", "custom_emoji_id": str(number)}:
            return f"custom:{number}"
    return str(reaction.get("type"))


def _membership(key: str, raw: Any) -> Event:
    membership = msgspec.convert(raw, _Membership)
    change = {"status": membership.new_chat_member.status, "old_status": membership.old_chat_member.status}
    return replace(_in_chat(key, "membership", membership.chat, membership.sender), context=change)


def _stopped(key: str, raw: Any) -> Event:
    stopped = msgspec.convert(raw, _Stopped)
    thread = None if stopped.message_thread_id is None else str(stopped.message_thread_id)
    event = _in_chat(key, "stop", stopped.chat, stopped.chat)
    return replace(event, thread_id=thread, context={"draft_id": str(stopped.draft_id)})


_READERS = {
    "callback_query": _callback,
    "message_reaction": _reaction,
    "my_chat_member": _membership,
    "stopped_message_generation": _stopped,
}


def _units(text: str, offset: int, length: int) -> str:
    """Entities count UTF-16 code units."""
    units = text.encode("utf-16-le", "surrogatepass")
    return units[2 * max(offset, 0) : 2 * max(offset + length, 0)].decode("utf-16-le", "replace")


def _context(message: _Message) -> dict[str, Any]:
    facts = {
        "media_group_id": message.media_group_id,
        "forwarded_from": message.forward_origin.name if message.forward_origin else None,
        "quote": sanitize.text(message.quote.text) if message.quote else None,
        "ephemeral_message_id": _text(message.ephemeral_message_id),
        "receiver_user_id": _text(message.sender.id) if message.sender and message.ephemeral_message_id else None,
    }
    return {name: fact for name, fact in facts.items() if fact is not None}


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


def _text_of(raw: dict[str, Any]) -> str:
    """Words for what has neither text nor caption."""
    match raw:
        case {"sticker": {"emoji": str(emoji)}} | {"dice": {"emoji": str(emoji)}}:
            return emoji
        case {"poll": {"question": str(question)}}:
            return question
        case {"checklist": value}:
            checklist = msgspec.convert(value, _Checklist)
            return "\n".join([checklist.title, *(f"- {task.text}" for task in checklist.tasks)])
        case {"rich_message": {"blocks": [*blocks]}}:
            return "\n".join(line for block in blocks for line in _rich_lines(block))
    return ""


def _rich_lines(block: Any) -> Iterator[str]:
    """The lines of one block of a rich message, whatever it is."""
    if isinstance(block, list):
        yield from (line for part in block for line in _rich_lines(part))
    if isinstance(block, dict):
        line = "".join(_rich_words(block.get("text") or block.get("summary") or block.get("expression")))
        if line:
            yield line
        for name in ("blocks", "items", "cells", "caption"):
            yield from _rich_lines(block.get(name))


def _rich_words(text: Any) -> Iterator[str]:
    if isinstance(text, str):
        yield text
    elif isinstance(text, list):
        yield from (word for part in text for word in _rich_words(part))
    elif isinstance(text, dict):
        yield from _rich_words(text.get("text") or text.get("alternative_text") or text.get("expression"))


def _attachments(raw: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One for each thing beside the text; what a newer Telegram invents is ``unsupported``, never an error."""
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
    """The largest size that can be downloaded; sizes come in ascending order."""
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
