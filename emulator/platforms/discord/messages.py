"""The messages in the channels of the fake Discord: the bot, interactions and people add, change and delete them.

Every change is published. The API call behind a change makes no difference here.
"""

from collections.abc import Mapping
from typing import Any

from emulator.platforms import reactions
from emulator.platforms.bus import EventBus
from emulator.platforms.config import Clock
from emulator.platforms.discord.calls import components, content_of
from emulator.platforms.discord.snowflakes import Snowflakes
from emulator.platforms.initial_people import DiscordApp
from emulator.platforms.store import FakeChat, FakeMessage, FakePerson, PlatformStore


class DiscordMessages:
    """Writes the rows of messages, and opens direct channels."""

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
        """Add a message to a channel, by the bot unless *author* names a person."""
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
        """The message with a new text; adds *detail* to its detail."""
        changed = self._store.change(
            message, text=content, detail={**message.detail, **detail}, edited_ms=self._clock.now_ms()
        )
        self._publish(changed)
        return changed

    def edit(self, message: FakeMessage, body: Mapping[str, Any]) -> FakeMessage:
        """*message* with the fields that *body* names; the others stay. An edit pings nobody."""
        buttons = {"components": components(body)} if "components" in body else {}
        content = content_of(body) if "content" in body else message.text
        return self.change(message, content, **buttons)

    def react(self, message: FakeMessage, emoji: str, *, who: str | None = None, is_removed: bool = False) -> bool:
        """*who*, or the bot, adds *emoji* to a message or takes it back. A reaction is no edit.

        Returns whether that changed anything.
        """
        who = who or self._app.id
        before = reactions.of_one(message.detail, who)
        after = [each for each in before if each != emoji] + ([] if is_removed else [emoji])
        if set(after) == set(before):
            return False
        self._publish(self._store.change(message, detail=reactions.chosen(message.detail, who, after), edited_ms=None))
        return True

    def direct(self, person: FakePerson) -> FakeChat:
        """The person's direct channel with the bot, opened if there is none."""
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
