"""A fake Discord REST API: the routes that a bot needs to read channels and write in them.

:mod:`.guard` checks every request. Unknown routes answer 404 with code 0. :mod:`.interactions` serves the routes of
interaction tokens.

Source: https://discord.com/developers/docs/reference (v10): routes, limits, error codes and their shapes.
"""

import json
import re
from typing import Any

from aiohttp import web

from emulator.platforms.bus import EventBus
from emulator.platforms.config import PlatformsConfig
from emulator.platforms.discord.attachments import Cdn
from emulator.platforms.discord.calls import (
    EPHEMERAL,
    ApiResult,
    DiscordError,
    components,
    content_of,
    flags_of,
    invalid,
    pings_of,
    read_body,
    read_json,
)
from emulator.platforms.discord.gateway import FakeGateway
from emulator.platforms.discord.gateway_sessions import GatewaySessions
from emulator.platforms.discord.guard import RouteGuard
from emulator.platforms.discord.guild_objects import GuildObjects
from emulator.platforms.discord.messages import DiscordMessages
from emulator.platforms.discord.objects import DiscordObjects
from emulator.platforms.discord.snowflakes import Snowflakes
from emulator.platforms.initial_people import DiscordApp
from emulator.platforms.store import FakeChat, FakeMessage, PlatformStore

MAX_NONCE = 25
SLASH = 1  # the type of a typed command; the other types are menu entries
NONCE_MS = 300_000  # how long Discord remembers a nonce: "some minutes"
TYPING_MS = 10_000


class FakeDiscord:
    """The REST API of one application, and the parts that interactions and people share."""

    def __init__(self, config: PlatformsConfig, store: PlatformStore, bus: EventBus, app: DiscordApp) -> None:
        self._store, self._bus, self.app, self._clock = store, bus, app, config.clock
        self.guard = RouteGuard(config, store, bus, app)
        self.snowflakes = Snowflakes(config.clock, store)
        self.cdn = Cdn(config.clock, store, app)
        self.objects = DiscordObjects(store, app, self.cdn)
        guild, sessions = GuildObjects(store, app, self.objects), GatewaySessions(app.id)
        self.gateway = FakeGateway(config, app, sessions, guild)
        self.messages = DiscordMessages(config.clock, store, bus, app, self.snowflakes, self.objects, guild, sessions)

    def start(self, url: str) -> None:
        """*url* is where both fakes are served."""
        self.cdn.url = url
        self.gateway.url = f"{url.replace('http', 'ws', 1)}/discord/gateway"

    def routes(self) -> list[web.AbstractRouteDef]:
        table = (
            ("GET", "/users/@me", self._me),
            ("GET", "/gateway/bot", self._gateway_bot),
            ("POST", "/users/@me/channels", self._open_dm),
            ("GET", "/channels/{channel}", self._get_channel),
            ("POST", "/channels/{channel}/messages", self._create_message),
            ("PATCH", "/channels/{channel}/messages/{message}", self._edit_message),
            ("DELETE", "/channels/{channel}/messages/{message}", self._delete_message),
            ("POST", "/channels/{channel}/typing", self._typing),
            ("PUT", "/channels/{channel}/messages/{message}/reactions/{emoji}/@me", self._react),
            ("PUT", "/applications/{app}/commands", self._put_commands),
            ("GET", "/applications/{app}/commands", self._get_commands),
        )
        return [*self.guard.routes(table, needs_bot=True), *self.gateway.routes(), *self.cdn.routes()]

    async def _me(self, request: web.Request) -> ApiResult:
        return ApiResult(200, self.objects.me)

    async def _gateway_bot(self, request: web.Request) -> ApiResult:
        return ApiResult(200, {"url": self.gateway.url, "shards": 1, "session_start_limit": self.gateway.start_limit()})

    async def _open_dm(self, request: web.Request) -> ApiResult:
        person = self._store.person("discord", str((await read_body(request)).get("recipient_id")))
        if person is None:
            raise DiscordError(400, 50033, "Invalid Recipient(s)")
        return ApiResult(200, self.objects.channel(self.messages.direct(person)))

    async def _get_channel(self, request: web.Request) -> ApiResult:
        return ApiResult(200, self.objects.channel(self._channel(request)))

    async def _create_message(self, request: web.Request) -> ApiResult:
        chat = self._channel(request)
        body = await read_body(request)
        content = content_of(body)
        pings, would_ping = pings_of(content, body.get("allowed_mentions"), default=("users", "roles", "everyone"))
        nonce = body.get("nonce")
        if nonce is not None and len(str(nonce)) > MAX_NONCE:
            raise invalid("nonce", "NONCE_TYPE_INVALID_LENGTH", f"Must be {MAX_NONCE} or fewer in length.")
        self._writable(chat)
        now_ms = self._clock.now_ms()
        if nonce is not None and body.get("enforce_nonce") is True:
            known = self._store.message_with_nonce(chat, str(nonce), since_ms=now_ms - NONCE_MS)
            if known is not None:
                return ApiResult(200, self.objects.message(chat, known))
        detail: dict[str, Any] = {"pings": pings, "would_ping": would_ping, "flags": flags_of(body)}
        detail["components"] = components(body)
        if (reference := body.get("message_reference")) is not None:
            detail.update(self._reference(chat, reference))
        message = self.messages.add(chat, content, detail, nonce=None if nonce is None else str(nonce))
        return ApiResult(200, self.objects.message(chat, message))

    async def _edit_message(self, request: web.Request) -> ApiResult:
        chat = self._channel(request)
        message = self._own_message(chat, request, 50005, "Cannot edit a message authored by another user")
        self._writable(chat)
        return ApiResult(200, self.objects.message(chat, self.messages.edit(message, await read_body(request))))

    async def _delete_message(self, request: web.Request) -> ApiResult:
        chat = self._channel(request)
        message = self._own_message(chat, request, 50003, "Cannot execute action on this channel type")
        self.messages.delete(message)
        return ApiResult(204)

    async def _typing(self, request: web.Request) -> ApiResult:
        chat = self._channel(request)
        self._writable(chat)
        self._bus.publish("typing", {"platform": "discord", "chat": chat.id, "action": "typing", "for_ms": TYPING_MS})
        return ApiResult(204)

    async def _react(self, request: web.Request) -> ApiResult:
        chat = self._channel(request)
        message = self._store.message(chat, request.match_info["message"])
        if message is None:
            raise DiscordError(404, 10008, "Unknown Message")
        emoji = request.match_info["emoji"]
        if emoji.isascii() and ":" not in emoji:
            raise DiscordError(400, 10014, "Unknown Emoji")
        self.messages.react(message, emoji)
        return ApiResult(204)

    async def _put_commands(self, request: web.Request) -> ApiResult:
        self._own_app(request)
        commands = await read_json(request)
        if not isinstance(commands, list) or not all(isinstance(command, dict) for command in commands):
            raise DiscordError(400, 50035, "Invalid Form Body")
        for index, command in enumerate(commands):
            if not _is_name(str(command.get("name", "")), command.get("type", SLASH)):
                raise invalid(f"{index}", "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")
        kept = [{"id": str(self.snowflakes.next()), "application_id": self.app.id, "type": 1, **c} for c in commands]
        self._store.put("discord.commands", json.dumps(kept))
        return ApiResult(200, kept)

    async def _get_commands(self, request: web.Request) -> ApiResult:
        self._own_app(request)
        return ApiResult(200, json.loads(self._store.get("discord.commands") or "[]"))

    # rules

    def _own_app(self, request: web.Request) -> None:
        if request.match_info["app"] != self.app.id:
            raise DiscordError(403, 20012, "You are not authorized to perform this action on this application")

    def _channel(self, request: web.Request) -> FakeChat:
        chat = self._store.chat("discord", request.match_info["channel"])
        if chat is None:
            raise DiscordError(404, 10003, "Unknown Channel")
        return chat

    def _writable(self, chat: FakeChat) -> None:
        if chat.facts.get("blocked"):
            if chat.kind == "dm":
                raise DiscordError(403, 50007, "Cannot send messages to this user")
            raise DiscordError(403, 50013, "Missing Permissions")

    def _own_message(self, chat: FakeChat, request: web.Request, code: int, why_not: str) -> FakeMessage:
        message = self._store.message(chat, request.match_info["message"])
        if message is None or message.detail.get("flags", 0) & EPHEMERAL:
            raise DiscordError(404, 10008, "Unknown Message")
        if not message.is_bot:
            raise DiscordError(403, code, why_not)
        return message

    def _reference(self, chat: FakeChat, reference: Any) -> dict[str, Any]:
        wanted = str(reference.get("message_id")) if isinstance(reference, dict) else ""
        if self._store.message(chat, wanted) is not None:
            return {"reply_to": wanted}
        if isinstance(reference, dict) and reference.get("fail_if_not_exists") is False:
            return {}
        raise invalid("message_reference", "MESSAGE_REFERENCE_UNKNOWN_MESSAGE", "Unknown message")


def _is_name(name: str, kind: Any) -> bool:
    """Whether *name* is valid for a command. Source: interactions/application-commands#application-command-object."""
    if kind == SLASH:
        return bool(re.fullmatch(r"[-_'\w]{1,32}", name)) and name == name.lower()
    return 0 < len(name) <= 32
