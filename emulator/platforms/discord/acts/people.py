"""People's actions on the fake Discord: use a command, press a button, join a channel."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from emulator.platforms.bus import EventBus
from emulator.platforms.discord import component_tree
from emulator.platforms.discord.api import FakeDiscord
from emulator.platforms.discord.app import CHANNEL_ID, GUILD_ID
from emulator.platforms.discord.calls import MAX_CONTENT
from emulator.platforms.discord.interaction_rows import InteractionRow
from emulator.platforms.discord.interactions import Interactions
from emulator.platforms.errors import ActionRefused
from emulator.platforms.store import FakeChat, FakeMessage, FakePerson, PlatformStore

MAX_PROMPT = 6000
MAX_THREAD_NAME = 100


class DiscordPeople:
    """Plays the people. Their message to the bot goes out as an interaction; the delivery follows."""

    def __init__(self, store: PlatformStore, bus: EventBus, discord: FakeDiscord, interactions: Interactions) -> None:
        self._store, self._bus, self._discord, self._interactions = store, bus, discord, interactions

    def ask(
        self, person_id: str, prompt: str, *, channel_id: str | None = None, command: str = "ask"
    ) -> InteractionRow:
        """*person_id* sends ``/ask prompt``. The delivery runs when this returns."""
        person = self.find_person(person_id)
        chat = self.find_channel(person, channel_id)
        if not prompt.strip():
            raise ActionRefused("the prompt is empty")
        if len(prompt) > MAX_PROMPT:
            raise ActionRefused(f"Discord's apps accept at most {MAX_PROMPT} characters in an option")
        interaction_id = str(self._discord.snowflakes.next())
        question = self._discord.messages.add(
            chat, prompt, {"command": command, "interaction": interaction_id}, author=person.id
        )
        return self._interactions.begin(interaction_id, chat, person, question)

    def say(
        self,
        person_id: str,
        text: str,
        *,
        channel_id: str | None = None,
        reply_to: str | None = None,
        shown: Sequence[Mapping[str, Any]] = (),
    ) -> FakeMessage:
        """*person_id* types *text*, which reaches an app through the Gateway alone.

        *shown* are files, from ``StoredFile.shown``.
        """
        person = self.find_person(person_id)
        chat = self.find_channel(person, channel_id)
        if not text.strip() and not shown:
            raise ActionRefused("the text is empty")
        if len(text) > MAX_CONTENT:
            raise ActionRefused(f"Discord's apps send at most {MAX_CONTENT} characters in one message")
        detail: dict[str, Any] = {
            "files": [{**each, "attachment": str(self._discord.snowflakes.next())} for each in shown]
        }
        if reply_to is not None:
            replied = self._store.message(chat, reply_to)
            if replied is None:
                raise ActionRefused(f"there is no message {reply_to} to reply to")
            detail |= {"reply_to": reply_to, "mentions": [replied.author]}
        return self._discord.messages.add(chat, text, detail, author=person.id)

    def edit(self, channel_id: str, message_id: str, text: str, *, person_id: str) -> dict[str, Any]:
        """*person_id* edits the text of their own message."""
        message = self._own(channel_id, message_id, person_id)
        if "command" in message.detail:
            raise ActionRefused("a command can't be edited; use it again")
        if not text.strip():
            raise ActionRefused("the text is empty")
        return {"message": self._discord.messages.change(message, text).id}

    def delete(self, channel_id: str, message_id: str, *, person_id: str) -> dict[str, Any]:
        """*person_id* deletes their own message."""
        self._discord.messages.delete(self._own(channel_id, message_id, person_id))
        return {"message": message_id}

    def react(
        self, channel_id: str, message_id: str, person_id: str, emoji: str, *, is_removed: bool
    ) -> dict[str, Any]:
        """*person_id* adds *emoji* to a message, or takes it back; whether that changed anything."""
        chat = self.find_channel(self.find_person(person_id), channel_id)
        message = self._store.message(chat, message_id)
        if message is None:
            raise ActionRefused(f"there is no message {message_id} in channel {channel_id}")
        return {"changed": self._discord.messages.react(message, emoji, who=person_id, is_removed=is_removed)}

    def _own(self, channel_id: str, message_id: str, person_id: str) -> FakeMessage:
        chat = self._store.chat("discord", channel_id)
        message = self._store.message(chat, message_id) if chat else None
        if message is None or message.is_bot:
            raise ActionRefused(f"there is no message {message_id} of a person in channel {channel_id}")
        if person_id != message.author:
            raise ActionRefused("people can edit and delete only their own messages")
        return message

    def press(self, channel_id: str, message_id: str, person_id: str, custom_id: str) -> InteractionRow:
        """*person_id* presses a button under a message. The delivery runs when this returns."""
        person = self.find_person(person_id)
        chat = self.find_channel(person, channel_id)
        message = self._store.message(chat, message_id)
        if message is None or message.detail.get("for") not in (None, person.id):
            raise ActionRefused(f"{person.name} sees no message {message_id} in channel {channel_id}")
        button = component_tree.find(message.detail.get("components", ()), custom_id)
        if button is None or button.get("type") != component_tree.BUTTON:
            raise ActionRefused(f"message {message_id} has no button with this data")
        return self._interactions.begin(str(self._discord.snowflakes.next()), chat, person, message, custom_id)

    def add_newcomer(self, name: str) -> FakePerson:
        """A new person called *name*, in the server's channel, without a direct channel."""
        person = FakePerson(
            str(self._discord.snowflakes.next()), name, re.sub(r"\W+", ".", name.lower()).strip(".") or "somebody"
        )
        self._store.add_person("discord", person)
        if (general := self._store.chat("discord", CHANNEL_ID)) is not None:
            self._store.join(general, person.id)
        self._bus.publish("chat", {"platform": "discord", "chat": CHANNEL_ID})
        return person

    def create_chat(self, title: str, members: Sequence[str], *, is_super: bool) -> dict[str, Any]:
        """Another channel of the server, with *members* and the bot; there is one kind of them."""
        if not members or not title.strip():
            raise ActionRefused("a channel needs a title and at least one member")
        people = tuple(self.find_person(member).id for member in members)
        chat = FakeChat("discord", str(self._discord.snowflakes.next()), "channel", title, people, {"guild": GUILD_ID})
        self._store.add_chat(chat)
        self._bus.publish("chat", {"platform": "discord", "chat": chat.id})
        return {"chat": chat.id}

    def open_thread(self, person_id: str, channel_id: str, name: str, *, message_id: str | None = None) -> FakeChat:
        """*person_id* opens a thread of a server channel, from a message if one is given."""
        person = self.find_person(person_id)
        chat = self.find_channel(person, channel_id)
        if chat.kind != "channel":
            raise ActionRefused("only a channel of the server has threads")
        if not 1 <= len(name.strip()) <= MAX_THREAD_NAME:
            raise ActionRefused(f"the name of a thread has 1 to {MAX_THREAD_NAME} characters")
        if message_id is not None and self._store.message(chat, message_id) is None:
            raise ActionRefused(f"there is no message {message_id} in channel {channel_id}")
        if message_id is not None and self._store.chat("discord", message_id) is not None:
            raise ActionRefused("this message has a thread already")
        return self._discord.threads.open(chat, name.strip(), owner=person.id, message_id=message_id)

    def block(self, channel_id: str, *, is_blocked: bool) -> dict[str, Any]:
        """The person blocks the app, or the server takes it out of a channel; or that is undone."""
        chat = self._store.chat("discord", channel_id)
        if chat is None:
            raise ActionRefused(f"there is no channel {channel_id}")
        self._store.set_facts(chat, blocked=is_blocked)
        self._bus.publish("chat", {"platform": "discord", "chat": chat.id})
        return {"chat": chat.id, "blocked": is_blocked}

    def join(self, channel_id: str, person_id: str) -> dict[str, Any]:
        """*person_id* joins a channel of the server."""
        chat, person = self._store.chat("discord", channel_id), self.find_person(person_id)
        if chat is None or chat.kind != "channel":
            raise ActionRefused(f"there is no server channel {channel_id} to join")
        self._store.join(chat, person.id)
        self._bus.publish("chat", {"platform": "discord", "chat": chat.id})
        return {"chat": chat.id, "person": person.id}

    def find_person(self, person_id: str) -> FakePerson:
        """The person with this id. Raises ActionRefused."""
        person = self._store.person("discord", person_id)
        if person is None:
            raise ActionRefused(f"there is no person with the id {person_id}")
        return person

    def find_channel(self, person: FakePerson, channel_id: str | None) -> FakeChat:
        """The channel where the person writes: the direct channel unless *channel_id* names another."""
        if channel_id is None:
            return self._discord.messages.direct(person)
        chat = self._store.chat("discord", channel_id)
        if chat is None or person.id not in chat.members:
            raise ActionRefused(f"{person.name} is not in channel {channel_id}")
        return chat
