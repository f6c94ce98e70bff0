"""Where a call to the fake Discord goes: the channel and the message in its path, or Discord's refusal.

Source: https://discord.com/developers/docs/topics/opcodes-and-status-codes#json
"""

from aiohttp import web

from emulator.platforms.discord.calls import EPHEMERAL, DiscordError
from emulator.platforms.store import FakeChat, FakeMessage, PlatformStore


class DiscordPlaces:
    """Finds channels and messages. Every method raises DiscordError."""

    def __init__(self, store: PlatformStore) -> None:
        self._store = store

    def channel(self, request: web.Request) -> FakeChat:
        chat = self._store.chat("discord", request.match_info["channel"])
        if chat is None:
            raise DiscordError(404, 10003, "Unknown Channel")
        return chat

    def check_writable(self, chat: FakeChat) -> None:
        """Refuse where the bot may not write. A message reopens an archived thread, unless it is locked."""
        parent = self._store.chat("discord", str(chat.facts.get("parent", ""))) or chat
        if chat.facts.get("blocked") or parent.facts.get("blocked"):
            if chat.kind == "dm":
                raise DiscordError(403, 50007, "Cannot send messages to this user")
            raise DiscordError(403, 50013, "Missing Permissions")
        if chat.facts.get("archived") and chat.facts.get("locked"):
            raise DiscordError(400, 50083, "Thread is archived")
        if chat.facts.get("archived"):
            self._store.set_facts(chat, archived=False)

    def message(self, chat: FakeChat, request: web.Request) -> FakeMessage:
        """The message in the path, if the bot can find it."""
        message = self._store.message(chat, request.match_info["message"])
        if message is None or not is_found(message):
            raise DiscordError(404, 10008, "Unknown Message")
        return message

    def own_message(self, chat: FakeChat, request: web.Request, code: int, why_not: str) -> FakeMessage:
        message = self.message(chat, request)
        if not message.is_bot:
            raise DiscordError(403, code, why_not)
        return message


def is_found(message: FakeMessage) -> bool:
    """Whether a bot finds the message: not one for a single person, nor the use of a command, which is none."""
    is_command = not message.is_bot and "command" in message.detail
    return not is_command and not message.detail.get("flags", 0) & EPHEMERAL
