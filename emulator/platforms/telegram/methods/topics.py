"""The topics of a chat: created, renamed, closed, hidden and deleted by the bot.

Source: https://core.telegram.org/bots/api#createforumtopic and those below it
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from emulator.platforms.store import FakeChat
from emulator.platforms.telegram.calls import ApiMethod, MethodResult, Params, TelegramError, integer
from emulator.platforms.telegram.methods.changes import GroupChange, changing
from emulator.platforms.telegram.methods.pins import unpinned
from emulator.platforms.telegram.methods.sender import TelegramSender
from emulator.platforms.telegram.standing import GENERAL

MAX_TOPIC_NAME = 128
_RIGHT, _WORDS = "can_manage_topics", "edit the topic"
_PIN = ("can_pin_messages", "manage pinned messages in the chat")


class TelegramTopics:
    """``facts`` of the chat: ``topics``, ``topic_names``, ``closed_topics`` and ``general_hidden``."""

    def __init__(self, sender: TelegramSender) -> None:
        self._sender, self._store = sender, sender.store

    def methods(self) -> tuple[ApiMethod, ...]:
        close, reopen = partial(self._set_closed, is_closed=True), partial(self._set_closed, is_closed=False)
        of_topic: dict[str, Callable[[FakeChat, Params], None]]
        of_topic = {"edit": self._rename, "close": close, "reopen": reopen, "delete": self._delete}
        of_general: dict[str, Callable[[FakeChat, Params], None]] = {
            "edit": partial(self._rename, thread=GENERAL),
            "close": partial(close, thread=GENERAL),
            "reopen": partial(reopen, thread=GENERAL),
            "hide": partial(self._set_hidden, is_hidden=True),
            "unhide": partial(self._set_hidden, is_hidden=False),
        }
        table = {f"{name}ForumTopic": GroupChange(_RIGHT, _WORDS, run) for name, run in of_topic.items()}
        table |= {f"{name}GeneralForumTopic": GroupChange(_RIGHT, _WORDS, run) for name, run in of_general.items()}
        table["unpinAllForumTopicMessages"] = GroupChange(*_PIN, self._unpin_all)
        table["unpinAllGeneralForumTopicMessages"] = GroupChange(*_PIN, partial(self._unpin_all, thread=GENERAL))
        return (
            ApiMethod("createForumTopic", self._create),
            ApiMethod("getForumTopicIconStickers", self._get_icons),
            *changing(self._sender, table),
        )

    async def _create(self, params: Params) -> MethodResult:
        """A topic of a supergroup, or of a private chat; its id is that of its service message."""
        chat, name = self._sender.places.writable(params), _name(params)
        _check_forum(chat)
        self._sender.places.need(chat, _RIGHT, "create a topic")
        thread = self._store.next_message_id(chat)
        if thread == GENERAL:
            thread = self._store.next_message_id(chat)
        names = {**chat.facts.get("topic_names", {}), str(thread): name}
        self._store.set_facts(chat, topics=[*chat.facts.get("topics", ()), thread], topic_names=names)
        self._sender.publish_chat(chat)
        colour = integer(params.get("icon_color"), 0x6FB9F0)
        return MethodResult({"message_thread_id": thread, "name": name, "icon_color": colour})

    async def _get_icons(self, params: Params) -> MethodResult:
        """Nobody has drawn any here."""
        return MethodResult([])

    def _rename(self, chat: FakeChat, params: Params, thread: int = 0) -> None:
        topic = thread or self._topic(chat, params)
        _check_forum(chat)
        if params.get("name") is None and not thread:
            return  # the icon alone
        self._store.set_facts(chat, topic_names={str(topic): _name(params)})

    def _set_closed(self, chat: FakeChat, params: Params, *, is_closed: bool, thread: int = 0) -> None:
        topic = thread or self._topic(chat, params)
        _check_forum(chat)
        closed = [each for each in chat.facts.get("closed_topics", ()) if each != topic]
        if is_closed == (topic in chat.facts.get("closed_topics", ())):
            raise TelegramError(400, "Bad Request: TOPIC_NOT_MODIFIED")
        self._store.set_facts(chat, closed_topics=[*closed, topic] if is_closed else closed)

    def _delete(self, chat: FakeChat, params: Params) -> None:
        """The topic goes with all its messages."""
        topic, now_ms = self._topic(chat, params), self._sender.clock.now_ms()
        for message in self._store.transcript(chat, limit=100_000):
            if message.detail.get("thread") == topic:
                self._store.delete(message, now_ms=now_ms)
                self._sender.publish(message)
        left: dict[str, Any] = {
            key: [each for each in chat.facts.get(key, ()) if each != topic] for key in ("topics", "closed_topics")
        }
        self._store.set_facts(chat, **left, topic_names={str(topic): None})

    def _set_hidden(self, chat: FakeChat, params: Params, *, is_hidden: bool) -> None:
        """A hidden General topic is closed too."""
        _check_forum(chat)
        if is_hidden == bool(chat.facts.get("general_hidden")):
            raise TelegramError(400, "Bad Request: TOPIC_NOT_MODIFIED")
        closed = [each for each in chat.facts.get("closed_topics", ()) if each != GENERAL]
        self._store.set_facts(chat, general_hidden=is_hidden, closed_topics=[*closed, GENERAL] if is_hidden else closed)

    def _unpin_all(self, chat: FakeChat, params: Params, thread: int = 0) -> None:
        topic = thread or self._topic(chat, params)
        wanted = None if topic == GENERAL else topic
        messages = {each: self._store.message(chat, each) for each in chat.facts.get("pinned", ())}
        gone = {each for each, message in messages.items() if message and message.detail.get("thread") == wanted}
        self._store.set_facts(chat, pinned=unpinned(chat, gone))

    def _topic(self, chat: FakeChat, params: Params) -> int:
        topic = integer(params.get("message_thread_id"), 0)
        if topic not in chat.facts.get("topics", ()):
            raise TelegramError(400, "Bad Request: TOPIC_ID_INVALID")
        return topic


def _check_forum(chat: FakeChat) -> None:
    if chat.kind == "group":
        raise TelegramError(400, "Bad Request: the chat is not a forum")


def _name(params: Params) -> str:
    name = str(params.get("name") or "")
    if not 1 <= len(name) <= MAX_TOPIC_NAME:
        raise TelegramError(400, "Bad Request: TOPIC_TITLE_INVALID")
    return name
