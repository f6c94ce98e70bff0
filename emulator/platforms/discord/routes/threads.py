"""Threads of the fake Discord: channels below a channel, which a bot makes, archives and writes in.

Source: https://discord.com/developers/docs/topics/threads, resources/channel#start-thread-from-message
"""

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from emulator.platforms.bus import EventBus
from emulator.platforms.config import Clock
from emulator.platforms.discord.app import GUILD_ID
from emulator.platforms.discord.calls import ApiResult, DiscordError, invalid, read_body
from emulator.platforms.discord.gateway.sessions import GatewaySessions
from emulator.platforms.discord.objects import DiscordObjects
from emulator.platforms.discord.routes.places import DiscordPlaces
from emulator.platforms.discord.snowflakes import Snowflakes
from emulator.platforms.store import FakeChat, PlatformStore

PUBLIC, PRIVATE = 11, 12
DURATIONS = (60, 1440, 4320, 10080)


class DiscordThreads:
    """Makes and changes threads."""

    def __init__(
        self,
        clock: Clock,
        store: PlatformStore,
        bus: EventBus,
        snowflakes: Snowflakes,
        objects: DiscordObjects,
        places: DiscordPlaces,
        gateway: GatewaySessions,
    ) -> None:
        self._clock, self._store, self._bus, self._snowflakes = clock, store, bus, snowflakes
        self._objects, self._places, self._gateway = objects, places, gateway

    def table(self) -> tuple[tuple[str, str, Any], ...]:
        return (
            ("POST", "/channels/{channel}/messages/{message}/threads", self._start_from_message),
            ("POST", "/channels/{channel}/threads", self._start),
            ("PATCH", "/channels/{channel}", self._change),
            ("PUT", "/channels/{channel}/thread-members/@me", self._join),
            ("DELETE", "/channels/{channel}/thread-members/@me", self._join),
            ("GET", "/guilds/{guild}/threads/active", self._active),
        )

    async def _start_from_message(self, request: web.Request) -> ApiResult:
        """The thread gets the id of its message."""
        chat = self._parent(request)
        message = self._places.message(chat, request)
        if self._store.chat("discord", message.id) is not None:
            raise DiscordError(400, 160004, "A thread has already been created for this message")
        body = await read_body(request)
        return ApiResult(201, self._objects.channel(self._add(chat, message.id, body, PUBLIC)))

    async def _start(self, request: web.Request) -> ApiResult:
        """Without a type, the thread is private."""
        chat, body = self._parent(request), await read_body(request)
        kind = body.get("type", PRIVATE)
        if kind not in (PUBLIC, PRIVATE):
            raise invalid("type", "BASE_TYPE_CHOICES", f"Value must be one of {{{PUBLIC}, {PRIVATE}}}.")
        return ApiResult(201, self._objects.channel(self._add(chat, str(self._snowflakes.next()), body, kind)))

    def open(self, chat: FakeChat, name: str, *, owner: str, message_id: str | None) -> FakeChat:
        """The person *owner* opens a public thread called *name*, of a message if one is given."""
        thread_id = message_id or str(self._snowflakes.next())
        return self._add(chat, thread_id, {"name": name}, PUBLIC, owner=owner)

    def _add(
        self, chat: FakeChat, thread_id: str, body: Mapping[str, Any], kind: int, *, owner: str | None = None
    ) -> FakeChat:
        name, duration = str(body.get("name") or ""), body.get("auto_archive_duration") or DURATIONS[1]
        if not 1 <= len(name) <= 100:
            raise invalid("name", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
        if duration not in DURATIONS:
            raise invalid("auto_archive_duration", "BASE_TYPE_CHOICES", f"Value must be one of {DURATIONS}.")
        facts = {
            "guild": GUILD_ID,
            "parent": chat.id,
            "type": kind,
            "auto_archive": duration,
            "created_ms": self._clock.now_ms(),
            **({"owner": owner} if owner is not None else {}),
        }
        thread = FakeChat("discord", thread_id, "thread", name, chat.members, facts)
        self._store.add_chat(thread)
        self._tell("THREAD_CREATE", thread, newly_created=True)
        return thread

    async def _change(self, request: web.Request) -> ApiResult:
        """Rename, archive, lock or reopen a thread."""
        chat, body = self._places.channel(request), await read_body(request)
        if chat.kind != "thread":
            raise DiscordError(403, 50013, "Missing Permissions")
        is_reopened = body.get("archived") is False
        if chat.facts.get("archived") and not is_reopened:
            raise DiscordError(400, 50083, "Thread is archived")
        facts = {key: bool(body[key]) for key in ("archived", "locked") if key in body}
        self._store.set_facts(chat, **facts)
        if name := body.get("name"):
            self._store.rename(chat, str(name))
        changed = self._store.chat("discord", chat.id) or chat
        self._tell("THREAD_UPDATE", changed)
        return ApiResult(200, self._objects.channel(changed))

    async def _join(self, request: web.Request) -> ApiResult:
        if self._places.channel(request).kind != "thread":
            raise DiscordError(400, 50024, "Cannot execute action on this channel type")
        return ApiResult(204)

    async def _active(self, request: web.Request) -> ApiResult:
        if request.match_info["guild"] != GUILD_ID:
            raise DiscordError(404, 10004, "Unknown Guild")
        threads = [c for c in self._store.chats("discord") if c.kind == "thread" and not c.facts.get("archived")]
        return ApiResult(
            200, {"threads": [self._objects.channel(each) for each in threads], "members": [], "has_more": False}
        )

    def _parent(self, request: web.Request) -> FakeChat:
        chat = self._places.channel(request)
        self._places.check_writable(chat)
        if chat.kind != "channel":
            raise DiscordError(400, 50024, "Cannot execute action on this channel type")
        return chat

    def _tell(self, name: str, thread: FakeChat, **more: Any) -> None:
        self._bus.publish("chat", {"platform": "discord", "chat": thread.id})
        self._gateway.publish(name, thread, {**self._objects.channel(thread), **more})
