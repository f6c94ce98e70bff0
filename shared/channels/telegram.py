"""Telegram: webhook updates in; ``sendMessage``, ``editMessageText`` and ``answerCallbackQuery`` out.

A delivery is Telegram's when it carries our secret header. After that nothing is answered with an error: Telegram would
redeliver for a day and hold back everything behind it in that chat.

Source: https://core.telegram.org/bots/api (10.3): #update, #message, #setwebhook (secret_token), #sendmessage,
#editmessagetext, #answercallbackquery, #inlinekeyboardmarkup, #formatting-options, #making-requests
(``parameters.retry_after``, ``migrate_to_chat_id``).
"""

import hmac
import html
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from pydantic import Field, SecretStr, field_validator
from pydantic_settings import SettingsConfigDict

from shared.channels import http, keys, markdown, sanitize
from shared.channels.base import Button, Event, Kind, Outgoing, Part, Received, WebhookReply, WebhookRequest
from shared.channels.http import Verdict
from shared.errors import OutcomeUnknown, PayloadInvalid, PostroomError, SignatureInvalid
from shared.settings import FromEnvironment

if TYPE_CHECKING:
    import httpx

SIGNATURE_HEADER = "x-telegram-bot-api-secret-token"
PART_UNITS = 3800  # of the 4096 that Telegram takes, whether it counts code points or UTF-16 units
PART_HTML_BYTES = 30_000  # of the 32768 before parsing
DOWNLOAD_BYTES = 20 * 1024 * 1024  # what getFile serves at most
ALERT_UNITS = 200  # of a text that is shown over the chat to who pressed a button
SHORT_ROW = 24  # characters of labels that stand side by side; on a phone, longer ones would be cut
GENERAL_TOPIC = "1"  # it has no id of its own: sending to 1 is "message thread not found"
DEFAULT_WAIT_MS = 5_000
REFUSED_TOKEN_WAIT_MS = 60_000


class TelegramSettings(FromEnvironment):
    """Read from ``TELEGRAM_BOT_TOKEN``, ``TELEGRAM_WEBHOOK_SECRET`` and so on: the field in capitals."""

    model_config = SettingsConfigDict(env_prefix="TELEGRAM_", frozen=True, extra="ignore")

    bot_token: SecretStr = Field(default=...)
    webhook_secret: SecretStr = Field(default=...)
    api_base: str = Field(default="https://api.telegram.org", pattern=r"^https?://[^/?#]+(/[^?#]*)?$")
    bot_username: str = ""  # without it, mentions by name in groups go unnoticed

    @field_validator("bot_token")
    @classmethod
    def _token(cls, value: SecretStr) -> SecretStr:
        if not re.fullmatch(r"[0-9]{1,20}:[A-Za-z0-9_-]+", value.get_secret_value()):
            raise ValueError("should be the token from BotFather: digits, a colon, letters")
        return value

    @field_validator("webhook_secret")
    @classmethod
    def _secret(cls, value: SecretStr) -> SecretStr:
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,256}", value.get_secret_value()):
            raise ValueError("should be 1 to 256 of A-Z a-z 0-9 _ -, as given to setWebhook")
        return value


def channel() -> "Telegram":
    """The adapter, configured from the environment."""
    return Telegram(TelegramSettings.load())


# -- what Telegram sends: only what is read, everything else ignored ---------------------------------------------------


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


class Telegram:
    """One bot."""

    name = "telegram"
    unreadable = WebhookReply()

    def __init__(self, settings: TelegramSettings) -> None:
        self._secret = settings.webhook_secret.get_secret_value().encode()
        self._bot_id = int(settings.bot_token.get_secret_value().partition(":")[0])
        self._mention = "@" + settings.bot_username.removeprefix("@").lower()
        self._base = f"{settings.api_base.rstrip('/')}/bot{settings.bot_token.get_secret_value()}"

    def receive(self, request: WebhookRequest, *, now_ms: int) -> Received:
        """See ``Channel.receive``. Answers with an empty 200: a JSON body could be executed as an API call."""
        given = request.headers.get(SIGNATURE_HEADER, "").encode("utf-8", "surrogatepass")
        if not hmac.compare_digest(given, self._secret):  # as bytes: text that isn't ASCII would raise
            raise SignatureInvalid("the X-Telegram-Bot-Api-Secret-Token header is missing or wrong")
        try:
            return Received((self._event(*_envelope(request.body)),))
        except (ValueError, RecursionError) as error:
            raise PayloadInvalid(f"not JSON that can be read ({type(error).__name__})") from None

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

    def render(self, text: str) -> tuple[Part, ...]:
        """Markdown to Telegram's HTML, with the same as plain text beside it. See ``Channel.render``."""
        limit = markdown.Limit(PART_UNITS, PART_HTML_BYTES, _html_bytes)
        blocks = markdown.parse(sanitize.text(text.replace("\r\n", "\n")))
        chunks = (markdown.trim(runs) for runs in markdown.pack(blocks, limit))
        return tuple(Part(text=markdown.plain(runs), html=to_html(runs)) for runs in chunks)

    async def send(self, part: Part, to: Outgoing, client: "httpx.AsyncClient", *, now_ms: int) -> str | None:
        """One message or edit, made plainer as long as Telegram says what it minds. See ``Channel.send``.

        Telegram has no idempotency key: a message without an answer may have been sent. An edit can be made again.
        """
        if to.click is not None and await self._is_told(part, to, client):
            return None
        call = edit_call(part, to) if to.edits else message_call(part, to)
        verdict = Verdict("permanent", "Telegram takes this message in no form")
        for _ in range(5):
            verdict = await self._try(call, client)
            if verdict.outcome == "sent":
                return verdict.message_id or call.edits
            simpler = simplify(call, verdict, part, to)
            if simpler == call:
                break
            call = simpler
        raise http.failure(verdict)

    async def _try(self, call: "Call", client: "httpx.AsyncClient") -> Verdict:
        try:
            answer = await http.call(client, "Telegram", "POST", f"{self._base}/{call.method}", call.body, {})
            verdict = classify(answer.status, answer.payload)
        except OutcomeUnknown as error:
            verdict = Verdict("unknown", str(error))
        if verdict.outcome == "unknown" and call.edits:  # again is the same message, not a second
            return replace(verdict, outcome="retry")
        return verdict

    async def _is_told(self, part: Part, to: Outgoing, client: "httpx.AsyncClient") -> bool:
        """Answer the press of a button; whether that said all of *part* to who pressed. It may be too late for it."""
        body: dict[str, Any] = {"callback_query_id": str((to.click or {}).get("callback_id"))}
        is_all = not to.edits and not to.buttons and _length(part.text) <= ALERT_UNITS
        if is_all:
            body |= {"text": part.text, "show_alert": True}
        with suppress(PostroomError):  # at most, a button shows for a while that it waits
            answer = await http.call(client, "Telegram", "POST", f"{self._base}/answerCallbackQuery", body, {})
            return is_all and 200 <= answer.status < 300
        return False

    async def open_direct(self, sender_id: str, client: "httpx.AsyncClient") -> str:
        """A private chat has the person's own id. See ``Channel.open_direct``."""
        return sender_id


# -- reading ----------------------------------------------------------------------------------------------------------


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


# -- rendering --------------------------------------------------------------------------------------------------------

_TAGS = {"b": "b", "i": "i", "s": "s", "code": "code", "quote": "blockquote"}


def _tags(style: markdown.Style) -> tuple[str, str]:
    name, argument = style
    if name == "link":
        return f'<a href="{html.escape(argument)}">', "</a>"
    if name == "pre":
        language = f'<code class="language-{html.escape(argument)}">' if argument else ""
        return f"<pre>{language}", "</code></pre>" if argument else "</pre>"
    return f"<{_TAGS[name]}>", f"</{_TAGS[name]}>"


def to_html(runs: Sequence[markdown.Run]) -> str:
    """Telegram HTML of styled runs, every tag closed in the order it was opened."""
    pieces: list[str] = []
    opened: list[markdown.Style] = []
    for text, styles in [*runs, markdown.Run("")]:
        shared = 0
        while shared < min(len(opened), len(styles)) and opened[shared] == styles[shared]:
            shared += 1
        pieces += [_tags(style)[1] for style in reversed(opened[shared:])]
        pieces += [_tags(style)[0] for style in styles[shared:]]
        opened = list(styles)
        pieces.append(html.escape(text, quote=False))
    return "".join(pieces)


def _html_bytes(run: markdown.Run) -> int:
    return len(to_html([run]).encode("utf-8", "surrogatepass"))


# -- sending ----------------------------------------------------------------------------------------------------------


class Call(NamedTuple):
    """One call of the Bot API; *edits* is the message that it changes, or None."""

    method: str
    body: dict[str, Any]
    edits: str | None = None


def message_call(part: Part, to: Outgoing) -> Call:
    """``sendMessage``. Only an answer in a group says which message it answers."""
    body = _body(part, to)
    if to.thread_id and to.thread_id != GENERAL_TOPIC:
        name = "direct_messages_topic_id" if to.thread_id.startswith("dm:") else "message_thread_id"
        body[name] = _number(to.thread_id.removeprefix("dm:"))
    if to.reply_to and to.is_first and to.platform_id.startswith("-"):
        body["reply_parameters"] = {"message_id": _number(to.reply_to), "allow_sending_without_reply": True}
    if to.context.get("ephemeral_message_id"):  # only the one who asked saw the question, so only they see the answer
        body.pop("reply_parameters", None)
        body["ephemeral_message_parameters"] = {"receiver_user_id": _number(str(to.context.get("receiver_user_id")))}
    return Call("sendMessage", body)


def edit_call(part: Part, to: Outgoing) -> Call:
    """``editMessageText``; buttons that are not named go away."""
    return Call("editMessageText", {**_body(part, to), "message_id": _number(to.edits or "")}, to.edits)


def _body(part: Part, to: Outgoing) -> dict[str, Any]:
    body: dict[str, Any] = {"chat_id": _number(to.platform_id), "link_preview_options": {"is_disabled": True}}
    body |= {"text": part.text} if part.html is None else {"text": part.html, "parse_mode": "HTML"}
    if to.buttons:
        body["reply_markup"] = {"inline_keyboard": keyboard(to.buttons)}
    return body


def keyboard(buttons: Sequence[Button]) -> list[list[dict[str, str]]]:
    """Short buttons side by side, others below each other."""
    per_row = 3 if sum(len(button.label) for button in buttons) <= SHORT_ROW else 1
    laid_out = keys.rows(buttons, per_row=per_row)
    return [[{"text": button.label, "callback_data": button.token} for button in row] for row in laid_out]


def _length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _number(value: str) -> int | str:
    return int(value) if re.fullmatch(r"-?[0-9]{1,19}", value) else value


def classify(status: int, payload: dict[str, Any]) -> Verdict:
    """Decide, without doing anything, what *status* and the JSON *payload* of a message call ask for."""
    description = str(payload.get("description", ""))
    said = description.lower()
    reason = f"Telegram {status}: {sanitize.name(description)[:200] or 'no description'}"
    if 200 <= status < 300:
        return _sent(payload)
    if "message is not modified" in said:
        return Verdict("sent")
    match status:
        case 429:
            return Verdict("wait", reason, retry_after_ms=_retry_after_ms(payload))
        case 400 | 403 if _migrated_to(payload) is not None:
            return Verdict("give_way", reason, "rename", new_chat_id=_migrated_to(payload))
        case 400:
            step = next((step for words, step in _MINDED.items() if words in said), "")
            return Verdict("give_way" if step else "permanent", reason, step)
        case 401 | 404:
            hint = "check TELEGRAM_BOT_TOKEN and TELEGRAM_API_BASE"
            return Verdict("retry", f"{reason}; {hint}", retry_after_ms=REFUSED_TOKEN_WAIT_MS)
        case 409:
            return Verdict("retry", reason, retry_after_ms=REFUSED_TOKEN_WAIT_MS)
    if 400 <= status < 500:
        return Verdict("permanent", reason)
    return Verdict("unknown", reason)


_MINDED = {
    "can't parse entities": "plain",
    "entity url": "plain",
    "unsupported start tag": "plain",
    "text is too long": "plain",
    "message to be replied not found": "no_reply",
    "message thread not found": "no_thread",
    "topic_closed": "no_thread",
    "topic_deleted": "no_thread",
    "message to edit not found": "anew",
    "message can't be edited": "anew",
    "message_id_invalid": "anew",
    "message identifier is not specified": "anew",
}


def _sent(payload: dict[str, Any]) -> Verdict:
    match payload:
        case {"result": {"message_id": int(number)}}:
            return Verdict("sent", message_id=str(number))
        case {"ok": True}:
            return Verdict("sent")
    return Verdict("unknown", "Telegram said 2xx, but not what it sent")


def _retry_after_ms(payload: dict[str, Any]) -> int:
    match payload:
        case {"parameters": {"retry_after": int(seconds)}}:
            return max(seconds, 1) * 1000
    return DEFAULT_WAIT_MS


def _migrated_to(payload: dict[str, Any]) -> int | None:
    match payload:
        case {"parameters": {"migrate_to_chat_id": int(number)}}:
            return number
    return None


def simplify(call: Call, verdict: Verdict, part: Part, to: Outgoing) -> Call:
    """*call* without what Telegram minded; the same call where there is nothing left to give up."""
    simpler = dict(call.body)
    match verdict.step:
        case "plain":
            simpler["text"] = part.text
            simpler.pop("parse_mode", None)
        case "no_thread":
            simpler.pop("message_thread_id", None)
        case "no_reply":
            simpler.pop("reply_parameters", None)
        case "rename":
            simpler["chat_id"] = verdict.new_chat_id
        case "anew" if call.edits:
            return message_call(part, to)
    return call._replace(body=simpler)
