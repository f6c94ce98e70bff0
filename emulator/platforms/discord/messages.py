"""What stands in the channels of the fake Discord: written, changed and deleted by the bot, interactions and people.

Every change is told to whoever watches; which call of the API asked for it makes no difference here.
"""

from collections.abc import Mapping
from typing import Any

from emulator.platforms.bus import EventBus
from emulator.platforms.config import Clock
from emulator.platforms.discord.calls import components, content_of
from emulator.platforms.discord.snowflakes import Snowflakes
from emulator.platforms.initial_people import DiscordApp
from emulator.platforms.store import FakeChat, FakeMessage, FakePerson, PlatformStore


class DiscordMessages:
    """Writes rows, and opens direct messages where nobody has yet."""

    def __init__(
        self, clock: Clock, store: PlatformStore, bus: EventBus, app: DiscordApp, snowflakes: Snowflakes
    ) -> None:
        self._clock, self._store, self._bus, self._app = clock, store, bus, app
        self._snowflakes = snowflakes

    def add(
        self,
        chat: FakeChat,
        content: str,
        detail: Mapping[str, Any],
        *,
        author: str | None = None,
        nonce: str | None = None,
    ) -> FakeMessage:
        """Write in a channel: the bot does, unless *author* says who."""
        message = self._store.add_message(
            chat,
            str(self._snowflakes.next()),
            author=author or self._app.id,
            is_bot=author is None,
            text=content,
            detail=detail,
            now_ms=self._clock.now_ms(),
            nonce=nonce,
        )
        self._publish(message)
        return message

    def change(self, message: FakeMessage, content: str, **detail: Any) -> FakeMessage:
        """The message with another text; *detail* is added to what it has."""
        changed = self._store.change(
            message, text=content, detail={**message.detail, **detail}, edited_ms=self._clock.now_ms()
        )
        self._publish(changed)
        return changed

    def edit(self, message: FakeMessage, body: Mapping[str, Any]) -> FakeMessage:
        """*message* with what *body* names; what it does not name stays. An edit pings nobody."""
        buttons = {"components": components(body)} if "components" in body else {}
        content = content_of(body) if "content" in body else message.text
        return self.change(message, content, **buttons)

    def react(self, message: FakeMessage, emoji: str) -> None:
        """The bot puts *emoji* on a message, once however often it does. That is no edit of it."""
        reactions = list(dict.fromkeys([*message.detail.get("reactions", ()), emoji]))
        self._publish(self._store.change(message, detail={**message.detail, "reactions": reactions}, edited_ms=None))

    def direct(self, person: FakePerson) -> FakeChat:
        """Their direct messages with the bot, opened if nobody has yet."""
        for chat in self._store.chats("discord"):
            if chat.kind == "dm" and person.id in chat.members:
                return chat
        chat = FakeChat("discord", str(self._snowflakes.next()), "dm", person.name, (person.id,), {})
        self._store.add_chat(chat)
        self._bus.publish("chat", {"platform": "discord", "chat": chat.id})
        return chat

    def delete(self, message: FakeMessage) -> None:
        self._store.delete(message, now_ms=self._clock.now_ms())
        self._bus.publish("chat", {"platform": "discord", "chat": message.chat})

    def _publish(self, message: FakeMessage) -> None:
        self._bus.publish("message", {"platform": "discord", "chat": message.chat, "id": message.id})
