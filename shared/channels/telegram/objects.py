"""The objects of an update, under their names in the Bot API, with the fields that we use.

Only fields that no object lacks are required. Types change: an unexpected object may cost one event, never an error.

Source: https://core.telegram.org/bots/api (10.3): #available-types.
"""

from typing import Any, get_type_hints

import msgspec

from shared.channels import sanitize


class TelegramUser(msgspec.Struct):
    id: int
    is_bot: bool = False
    first_name: str = ""
    last_name: str = ""
    username: str = ""

    @property
    def name(self) -> str:
        return sanitize.name(f"{self.first_name} {self.last_name}") or sanitize.name(self.username) or str(self.id)


class TelegramChat(msgspec.Struct):
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


class MessageEntity(msgspec.Struct):
    type: str
    offset: int
    length: int
    user: TelegramUser | None = None


class MessageOrigin(msgspec.Struct):
    sender_user: TelegramUser | None = None
    sender_user_name: str = ""
    sender_chat: TelegramChat | None = None
    chat: TelegramChat | None = None

    @property
    def name(self) -> str:
        origin = self.sender_user or self.sender_chat or self.chat
        return origin.name if origin else sanitize.name(self.sender_user_name)

    @property
    def author_id(self) -> str | None:
        """The first sender's id; None where Telegram hides the sender."""
        origin = self.sender_user or self.sender_chat or self.chat
        return str(origin.id) if origin else None


class DirectMessagesTopic(msgspec.Struct):
    topic_id: int


class TextQuote(msgspec.Struct):
    text: str = ""


class ExternalReply(msgspec.Struct):
    """A message of another chat to which this one replies; its text comes only as ``quote``, if at all."""

    origin: MessageOrigin
    message_id: int | None = None


class TelegramMessage(msgspec.Struct, rename={"sender": "from"}):
    message_id: int
    chat: TelegramChat
    date: int | None = None
    edit_date: int | None = None
    sender: TelegramUser | None = None
    sender_chat: TelegramChat | None = None
    text: str = ""
    caption: str = ""
    entities: list[Any] = []
    caption_entities: list[Any] = []
    author_signature: str = ""
    message_thread_id: int | None = None
    is_topic_message: bool = False
    direct_messages_topic: DirectMessagesTopic | None = None
    reply_to_message: "TelegramMessage | None" = None
    forum_topic_created: dict[str, Any] | None = None
    external_reply: ExternalReply | None = None
    quote: TextQuote | None = None
    via_bot: TelegramUser | None = None
    media_group_id: str | None = None
    forward_origin: MessageOrigin | None = None
    ephemeral_message_id: int | None = None
    migrate_to_chat_id: int | None = None
    migrate_from_chat_id: int | None = None

    @property
    def author(self) -> TelegramUser | TelegramChat:
        """The sending chat wins over the placeholder user that Telegram names beside it."""
        return self.sender_chat or self.sender or self.chat

    @property
    def author_name(self) -> str:
        """A chat that sends may name the person who wrote for it; anybody may choose that name."""
        signature = sanitize.name(self.author_signature) if self.sender_chat else ""
        return f"{self.author.name} ({signature})" if signature else self.author.name

    @property
    def thread_id(self) -> str | None:
        """The topic. Without ``is_topic_message`` the number only marks a chain of replies."""
        if self.direct_messages_topic:
            return f"dm:{self.direct_messages_topic.topic_id}"
        is_topic = self.is_topic_message and self.message_thread_id is not None
        return str(self.message_thread_id) if is_topic else None


_LOSABLE = ("reply_to_message", "external_reply", "quote", "entities", "caption_entities", "author_signature")


def message_of(raw: Any) -> TelegramMessage:
    """A message. What is malformed in a quotation or a signature costs that alone; a hidden origin stands for a
    malformed one, because a forwarded text must never become the sender's own.

    Raises:
        msgspec.ValidationError: what the message says, where, or who says it, can't be read.
    """
    try:
        return msgspec.convert(raw, TelegramMessage)
    except msgspec.ValidationError:
        if not isinstance(raw, dict):
            raise
    kept = {name: value for name, value in raw.items() if name not in _LOSABLE or _is_readable(name, value)}
    if "forward_origin" in kept and not _is_readable("forward_origin", kept["forward_origin"]):
        kept["forward_origin"] = {}
    return msgspec.convert(kept, TelegramMessage)


def _is_readable(name: str, value: Any) -> bool:
    try:
        msgspec.convert(value, _TYPES[name])
    except msgspec.ValidationError:
        return False
    return True


_TYPES = get_type_hints(TelegramMessage)


def entities_of(message: TelegramMessage) -> list[MessageEntity]:
    """The entities of the text or caption. A malformed one is left out, and costs the others nothing."""
    found = message.entities if message.text else message.caption_entities
    return [entity for entity in map(_entity, found) if entity is not None and entity.offset >= 0 < entity.length]


def _entity(raw: Any) -> MessageEntity | None:
    try:
        return msgspec.convert(raw, MessageEntity)
    except msgspec.ValidationError:
        return None


class CallbackQuery(msgspec.Struct, rename={"sender": "from"}):
    id: str
    sender: TelegramUser
    message: TelegramMessage | None = None
    data: str = ""


class MessageReactionUpdated(msgspec.Struct):
    chat: TelegramChat
    message_id: int
    date: int | None = None
    user: TelegramUser | None = None
    actor_chat: TelegramChat | None = None
    old_reaction: list[dict[str, Any]] = []
    new_reaction: list[dict[str, Any]] = []


class ChatMember(msgspec.Struct):
    status: str


class ChatMemberUpdated(msgspec.Struct, rename={"sender": "from"}):
    chat: TelegramChat
    sender: TelegramUser
    old_chat_member: ChatMember
    new_chat_member: ChatMember
    date: int | None = None


class ManagedBotUpdated(msgspec.Struct):
    user: TelegramUser
    bot: TelegramUser


class ManagedBotCreated(msgspec.Struct):
    bot: TelegramUser


class StoppedMessageGeneration(msgspec.Struct):
    chat: TelegramChat
    draft_id: int
    message_thread_id: int | None = None
