"""The objects of an update, as far as they are used: whatever else Telegram sends, and will send, is left out.

Only what an object can't be without is required: types change, and a surprise may cost one event, never an error.

Source: https://core.telegram.org/bots/api (10.3): #available-types.
"""

from typing import Any

import msgspec

from shared.channels import sanitize


class User(msgspec.Struct):
    id: int
    is_bot: bool = False
    first_name: str = ""
    last_name: str = ""
    username: str = ""

    @property
    def name(self) -> str:
        return sanitize.name(f"{self.first_name} {self.last_name}") or sanitize.name(self.username) or str(self.id)


class Chat(msgspec.Struct):
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


class Entity(msgspec.Struct):
    type: str
    offset: int
    length: int
    user: User | None = None


class Origin(msgspec.Struct):
    sender_user: User | None = None
    sender_user_name: str = ""
    sender_chat: Chat | None = None
    chat: Chat | None = None

    @property
    def name(self) -> str:
        origin = self.sender_user or self.sender_chat or self.chat
        return origin.name if origin else sanitize.name(self.sender_user_name)


class Topic(msgspec.Struct):
    topic_id: int


class Quote(msgspec.Struct):
    text: str = ""


class Message(msgspec.Struct, rename={"sender": "from"}):
    message_id: int
    chat: Chat
    sender: User | None = None
    sender_chat: Chat | None = None
    text: str = ""
    caption: str = ""
    entities: list[Entity] = []
    caption_entities: list[Entity] = []
    message_thread_id: int | None = None
    is_topic_message: bool = False
    direct_messages_topic: Topic | None = None
    reply_to_message: "Message | None" = None
    forum_topic_created: dict[str, Any] | None = None
    quote: Quote | None = None
    via_bot: User | None = None
    media_group_id: str | None = None
    forward_origin: Origin | None = None
    ephemeral_message_id: int | None = None
    migrate_to_chat_id: int | None = None
    migrate_from_chat_id: int | None = None

    @property
    def author(self) -> User | Chat:
        """A chat that speaks wins over the stand-in user that Telegram names beside it."""
        return self.sender_chat or self.sender or self.chat

    @property
    def thread_id(self) -> str | None:
        """Without ``is_topic_message`` the number only marks a chain of replies."""
        if self.direct_messages_topic:
            return f"dm:{self.direct_messages_topic.topic_id}"
        is_topic = self.is_topic_message and self.message_thread_id is not None
        return str(self.message_thread_id) if is_topic else None


class Callback(msgspec.Struct, rename={"sender": "from"}):
    id: str
    sender: User
    message: Message | None = None
    data: str = ""


class Reaction(msgspec.Struct):
    chat: Chat
    message_id: int
    user: User | None = None
    actor_chat: Chat | None = None
    old_reaction: list[dict[str, Any]] = []
    new_reaction: list[dict[str, Any]] = []


class Member(msgspec.Struct):
    status: str


class Membership(msgspec.Struct, rename={"sender": "from"}):
    chat: Chat
    sender: User
    old_chat_member: Member
    new_chat_member: Member


class Stopped(msgspec.Struct):
    chat: Chat
    draft_id: int
    message_thread_id: int | None = None
