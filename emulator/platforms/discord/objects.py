"""The User, Channel and Message objects of Discord's API, written from rows.

Source: https://discord.com/developers/docs/resources/user, resources/channel, resources/message
"""

import time
from typing import Any

from emulator.platforms.initial_people import BOT_NAME, GUILD_ID, DiscordApp
from emulator.platforms.store import FakeChat, FakeMessage, FakePerson, PlatformStore


class DiscordObjects:
    """Writes objects from rows; the author of the bot's messages is the application's bot user."""

    def __init__(self, store: PlatformStore, app: DiscordApp) -> None:
        self._store, self._app = store, app

    @property
    def bot_user(self) -> dict[str, Any]:
        return {
            "id": self._app.id,
            "username": BOT_NAME.lower(),
            "global_name": None,
            "avatar": None,
            "discriminator": "0001",
            "public_flags": 0,
            "bot": True,
        }

    def user(self, person: FakePerson) -> dict[str, Any]:
        return {
            "id": person.id,
            "username": person.username,
            "global_name": person.name,
            "avatar": None,
            "discriminator": "0",
            "public_flags": 0,
            "avatar_decoration_data": None,
            "collectibles": None,
            "primary_guild": None,
        }

    def channel(self, chat: FakeChat) -> dict[str, Any]:
        last = self._store.last_message(chat)
        common = {"id": chat.id, "flags": 0, "last_message_id": last.id if last else None}
        if chat.kind == "dm":
            people = [self._store.person("discord", member) for member in chat.members]
            return {**common, "type": 1, "recipients": [self.user(person) for person in people if person]}
        return {
            **common,
            "type": 0,
            "name": chat.title,
            "guild_id": GUILD_ID,
            "parent_id": None,
            "position": 1,
            "permissions": "2248473465835073",
            "nsfw": False,
            "rate_limit_per_user": 0,
            "topic": None,
        }

    def message(self, chat: FakeChat, message: FakeMessage) -> dict[str, Any]:
        """The Message object."""
        person = None if message.is_bot else self._store.person("discord", message.author)
        pings = message.detail.get("pings", [])
        wired: dict[str, Any] = {
            "id": message.id,
            "channel_id": chat.id,
            "type": 0,
            "content": message.text,
            "author": self.user(person) if person else self.bot_user,
            "timestamp": _iso(message.created_ms),
            "edited_timestamp": _iso(message.edited_ms) if message.edited_ms is not None else None,
            "tts": False,
            "mention_everyone": "everyone" in pings,
            "mentions": [],
            "mention_roles": [],
            "attachments": [],
            "embeds": [],
            "pinned": False,
            "flags": message.detail.get("flags", 0),
            "components": _numbered(message.detail.get("components", [])),
        }
        if (interaction := message.detail.get("interaction")) is not None:
            wired.update(application_id=self._app.id, webhook_id=self._app.id)
            wired["interaction_metadata"] = {"id": interaction, "type": 2}
        if (reply_to := message.detail.get("reply_to")) is not None:
            wired["message_reference"] = {"type": 0, "channel_id": chat.id, "message_id": reply_to}
        return {**wired, "nonce": message.nonce} if message.nonce is not None else wired


def _iso(at_ms: int) -> str:
    seconds, milliseconds = divmod(at_ms, 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{milliseconds:03d}000+00:00"


def _numbered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Components as Discord returns them: numbered in their order."""
    numbers = iter(range(1, 1000))
    return [
        {**row, "id": next(numbers), "components": [{**b, "id": next(numbers)} for b in row["components"]]}
        for row in rows
    ]
