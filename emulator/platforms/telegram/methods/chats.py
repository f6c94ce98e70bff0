"""The methods about a chat: what it is, who is in it, and its topics.

Source: https://core.telegram.org/bots/api#getchat, #getchatmember, #createforumtopic
"""

from typing import Any

from emulator.platforms.bus import EventBus
from emulator.platforms.store import FakeChat, PlatformStore
from emulator.platforms.telegram.calls import ApiMethod, MethodResult, Params, TelegramError, integer
from emulator.platforms.telegram.objects import TelegramObjects
from emulator.platforms.telegram.places import TelegramPlaces

MAX_TOPIC_NAME = 128
_GIFTS = "unlimited_gifts limited_gifts unique_gifts premium_subscription gifts_from_channels"


class TelegramChats:
    """Answers questions about chats, and makes topics."""

    def __init__(self, store: PlatformStore, bus: EventBus, objects: TelegramObjects, places: TelegramPlaces) -> None:
        self._store, self._bus, self._objects, self._places = store, bus, objects, places

    def methods(self) -> tuple[ApiMethod, ...]:
        return (
            ApiMethod("getChat", self._get_chat),
            ApiMethod("getChatMember", self._get_chat_member),
            ApiMethod("getChatMemberCount", self._get_count),
            ApiMethod("createForumTopic", self._create_topic),
        )

    async def _get_chat(self, params: Params) -> MethodResult:
        chat = self._places.known(params)
        full = {
            "accent_color_id": int(chat.id) % 7,
            "max_reaction_count": 11,
            "accepted_gift_types": dict.fromkeys(_GIFTS.split(), False),
        }
        return MethodResult({**self._objects.chat(chat), **full})

    async def _get_chat_member(self, params: Params) -> MethodResult:
        chat, wanted = self._places.known(params), str(integer(params.get("user_id"), 0))
        if wanted == str(self._objects.me["id"]):
            return MethodResult(self._bot_member(chat))
        person = self._store.person("telegram", wanted)
        if person is None:
            raise TelegramError(400, "Bad Request: PARTICIPANT_ID_INVALID")
        status = "member" if wanted in chat.members else "left"
        return MethodResult({"status": status, "user": self._objects.person(person)})

    def _bot_member(self, chat: FakeChat) -> dict[str, Any]:
        me = self._objects.me
        if chat.facts.get("blocked"):
            return {"status": "kicked", "user": me, "until_date": 0}
        return {"status": "member", "user": me}

    async def _get_count(self, params: Params) -> MethodResult:
        return MethodResult(len(self._places.known(params).members) + 1)

    async def _create_topic(self, params: Params) -> MethodResult:
        """A topic of a supergroup, or of a private chat; its id is that of its service message."""
        chat, name = self._places.writable(params), str(params.get("name") or "")
        if chat.kind == "group":
            raise TelegramError(400, "Bad Request: the chat is not a forum")
        if not 1 <= len(name) <= MAX_TOPIC_NAME:
            raise TelegramError(400, "Bad Request: TOPIC_TITLE_INVALID")
        thread = self._store.next_message_id(chat)
        names = {**chat.facts.get("topic_names", {}), str(thread): name}
        self._store.set_facts(chat, topics=[*chat.facts.get("topics", ()), thread], topic_names=names)
        self._bus.publish("chat", {"platform": "telegram", "chat": chat.id})
        return MethodResult({"message_thread_id": thread, "name": name, "icon_color": 0x6FB9F0})
