"""What a bot reads about a chat.

Source: https://core.telegram.org/bots/api#getchat
"""

from typing import Any

from emulator.platforms.store import FakeChat, PlatformStore
from emulator.platforms.telegram import standing
from emulator.platforms.telegram.calls import ApiMethod, MethodResult, Params
from emulator.platforms.telegram.objects import TelegramObjects
from emulator.platforms.telegram.places import TelegramPlaces

_GIFTS = "unlimited_gifts limited_gifts unique_gifts premium_subscription gifts_from_channels"


class TelegramChats:
    """Answers questions about chats."""

    def __init__(self, store: PlatformStore, objects: TelegramObjects, places: TelegramPlaces) -> None:
        self._store, self._objects, self._places = store, objects, places

    def methods(self) -> tuple[ApiMethod, ...]:
        return (ApiMethod("getChat", self._get_chat),)

    async def _get_chat(self, params: Params) -> MethodResult:
        chat = self._places.known(params)
        full: dict[str, Any] = {
            "accent_color_id": int(chat.id) % 7,
            "max_reaction_count": 11,
            "accepted_gift_types": dict.fromkeys(_GIFTS.split(), False),
        }
        if chat.kind != "private":
            kept = chat.facts.get("permissions", {})
            full["permissions"] = standing.booleans("ChatPermissions", kept, default=not kept)
        if chat.facts.get("description"):
            full["description"] = chat.facts["description"]
        if (pinned := self._pinned(chat)) is not None:
            full["pinned_message"] = pinned
        return MethodResult({**self._objects.chat(chat), **full})

    def _pinned(self, chat: FakeChat) -> dict[str, Any] | None:
        """The newest pinned message that is still there."""
        found = (self._store.message(chat, each) for each in reversed(chat.facts.get("pinned", ())))
        message = next((each for each in found if each is not None), None)
        return None if message is None else self._objects.message(chat, message, with_reply=False)
