"""What all methods that write share: where a message goes, its row, its edit, and the event for the chat page."""

from collections.abc import Mapping
from typing import Any

import msgspec

from emulator.platforms.bus import EventBus
from emulator.platforms.config import Clock
from emulator.platforms.store import FakeChat, FakeMessage, PlatformStore
from emulator.platforms.telegram.bot import TelegramBot
from emulator.platforms.telegram.calls import MethodResult, Params, TelegramError
from emulator.platforms.telegram.objects import TelegramObjects
from emulator.platforms.telegram.places import TelegramPlaces

NOT_MODIFIED = (
    "Bad Request: message is not modified: specified new message content and reply markup are exactly the"
    " same as a current content and reply markup of the message"
)


class TelegramSender(msgspec.Struct, frozen=True):
    """Adds and changes messages of the bot."""

    clock: Clock
    store: PlatformStore
    bus: EventBus
    bot: TelegramBot
    objects: TelegramObjects
    places: TelegramPlaces

    def placed(self, chat: FakeChat, params: Params, buttons: list[Any] | None) -> dict[str, Any]:
        """The part of a new message's detail that says where it stands: topic, reply and keyboard. Raises 400."""
        given = {
            "thread": self.places.thread(chat, params),
            "reply_to": self.places.reply_to(chat, params),
            "keyboard": buttons,
        }
        return {key: value for key, value in given.items() if value is not None}

    def add(self, chat: FakeChat, text: str, detail: Mapping[str, Any]) -> FakeMessage:
        message = self.store.add_message(
            chat,
            str(self.store.next_message_id(chat)),
            author=str(self.bot.id),
            is_bot=True,
            text=text,
            detail=detail,
            now_ms=self.clock.now_ms(),
        )
        self.publish(message)
        return message

    def sent(self, chat: FakeChat, text: str, detail: Mapping[str, Any]) -> MethodResult:
        """Add a message; the result is the Message object."""
        return MethodResult(self.objects.message(chat, self.add(chat, text, detail)))

    def edit(
        self, chat: FakeChat, message: FakeMessage, buttons: list[Any] | None, text: str | None = None, **facts: Any
    ) -> MethodResult:
        """Change the keyboard, and with them the *text* and *facts* of the detail. Raises 400 where nothing changes."""
        detail = {key: value for key, value in message.detail.items() if key != "keyboard"} | facts
        if buttons is not None:
            detail["keyboard"] = buttons
        if text in (None, message.text) and detail == message.detail:
            raise TelegramError(400, NOT_MODIFIED)
        self.places.flood.take(chat)
        changed = self.store.change(message, text=text, detail=detail, edited_ms=self.clock.now_ms())
        self.publish(changed)
        return MethodResult(self.objects.message(chat, changed))

    def publish(self, message: FakeMessage) -> None:
        """Tell the chat page that *message* is new, changed or deleted."""
        self.bus.publish("message", {"platform": "telegram", "chat": message.chat, "id": message.id})

    def publish_chat(self, chat: FakeChat) -> None:
        """Tell the chat page that *chat* changed."""
        self.bus.publish("chat", {"platform": "telegram", "chat": chat.id})
