"""The messages in the channels of the fake Discord: the bot, interactions and people add, change and delete them.

Every change is published: to the chat page, and to the Gateway. The API call behind a change makes no difference here.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from emulator.platforms import reactions
from emulator.platforms.bus import EventBus
from emulator.platforms.config import Clock
from emulator.platforms.discord.app import GUILD_ID, DiscordApp
from emulator.platforms.discord.gateway.sessions import GatewaySessions
from emulator.platforms.discord.guild_objects import GuildObjects, member
from emulator.platforms.discord.message_body import MessageBodies, UploadedPart
from emulator.platforms.discord.objects import DiscordObjects, emoji_object
from emulator.platforms.discord.snowflakes import Snowflakes
from emulator.platforms.store import FakeChat, FakeMessage, FakePerson, PlatformStore


class DiscordMessages:
    """Writes the rows of messages, and opens direct channels."""

    def __init__(
        self,
        clock: Clock,
        store: PlatformStore,
        bus: EventBus,
        app: DiscordApp,
        snowflakes: Snowflakes,
        objects: DiscordObjects,
        guild: GuildObjects,
        gateway: GatewaySessions,
    ) -> None:
        self._clock, self._store, self._bus, self._app = clock, store, bus, app
        self._snowflakes, self._objects, self._guild, self._gateway = snowflakes, objects, guild, gateway
        self.bodies = MessageBodies(clock, store, snowflakes)

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
        self._announce("MESSAGE_CREATE", message)
        return message

    def change(self, message: FakeMessage, content: str, **detail: Any) -> FakeMessage:
        """The message with a new text; adds *detail* to its detail."""
        changed = self._store.change(
            message, text=content, detail={**message.detail, **detail}, edited_ms=self._clock.now_ms()
        )
        self._announce("MESSAGE_UPDATE", changed)
        return changed

    def edit(self, message: FakeMessage, body: Mapping[str, Any], uploads: Sequence[UploadedPart] = ()) -> FakeMessage:
        """*message* with the fields that *body* names; the others stay. An edit pings nobody."""
        content, detail = self.bodies.edited(message, body, list(uploads))
        return self.change(message, content, **detail)

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
        self._announce_reaction(message, emoji, who, is_removed=is_removed)
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
        self._publish(message)
        if message.detail.get("for") is None:
            chat = self._chat(message)
            self._gateway.publish("MESSAGE_DELETE", chat, {"id": message.id, "channel_id": chat.id, **_guild_of(chat)})

    def _announce(self, name: str, message: FakeMessage) -> None:
        """Publish a message; the Gateway doesn't carry one that only one person sees, nor the use of a command."""
        self._publish(message)
        is_command = not message.is_bot and "command" in message.detail
        if message.detail.get("for") is None and not is_command:
            chat = self._chat(message)
            wired = self._guild.message_event(chat, self._objects.message(chat, message))
            self._gateway.publish(name, chat, wired)

    def _announce_reaction(self, message: FakeMessage, emoji: str, who: str, *, is_removed: bool) -> None:
        chat = self._chat(message)
        data: dict[str, Any] = {
            "user_id": who,
            "channel_id": chat.id,
            "message_id": message.id,
            "emoji": {**emoji_object(emoji), "animated": False},
            "burst": False,
            "type": 0,
            **_guild_of(chat),
        }
        if is_removed:
            self._gateway.publish("MESSAGE_REACTION_REMOVE", chat, data)
            return
        person = self._store.person("discord", who)
        if chat.facts.get("guild"):
            data["member"] = member(self._objects.user(person) if person else self._objects.bot_user)
        self._gateway.publish(
            "MESSAGE_REACTION_ADD", chat, {**data, "message_author_id": message.author, "burst_colors": []}
        )

    def _chat(self, message: FakeMessage) -> FakeChat:
        chat = self._store.chat("discord", message.chat)
        if chat is None:
            raise LookupError(f"channel {message.chat} of message {message.id} is gone")
        return chat

    def _publish(self, message: FakeMessage) -> None:
        self._bus.publish("message", {"platform": "discord", "chat": message.chat, "id": message.id})


def _guild_of(chat: FakeChat) -> dict[str, str]:
    return {"guild_id": GUILD_ID} if chat.facts.get("guild") else {}
