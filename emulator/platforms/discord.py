"""A fake Discord REST API: what an application needs to answer interactions and to write in channels.

Source: https://discord.com/developers/docs/reference (v10): routes, limits, error codes and their shapes. Routes that
are not here answer 404 with code 0. Interaction tokens live and die in :mod:`.discord_interactions`.
"""

import json
import re
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from .bus import Bus
from .cast import BOT_NAME, GUILD_ID, DiscordApp
from .config import PlatformsConfig
from .discord_calls import (
    EPHEMERAL,
    DiscordError,
    Result,
    components,
    failed,
    invalid,
    limited,
    pinged,
    read_body,
    read_json,
)
from .faults import Fault, Faults
from .store import Chat, Message, Person, Store

EPOCH_MS = 1_420_070_400_000
MAX_CONTENT = 2000
MAX_NONCE = 25
NONCE_MS = 300_000  # for how long a nonce is remembered: "some minutes"
TYPING_MS = 10_000
MAX_BODY_BYTES = 25 << 20

Body = Mapping[str, Any]


@dataclass(slots=True)
class _Limits:
    """The requests of late on each route of each channel, and the snowflake that was given last."""

    at_ms: dict[str, deque[int]] = field(default_factory=lambda: defaultdict(deque))
    last_snowflake: int = 0


class Discord:
    """The REST side of one application."""

    def __init__(self, config: PlatformsConfig, store: Store, bus: Bus, app: DiscordApp) -> None:
        self._config, self._store, self._bus, self.app = config, store, bus, app
        self._clock = config.clock
        self._limits = _Limits()
        self.faults = Faults()

    # HTTP

    def routes(self) -> list[web.AbstractRouteDef]:
        base = "/discord/api/v10"
        table: tuple[tuple[str, str, Callable[[web.Request], Awaitable[Result]]], ...] = (
            ("GET", "/users/@me", self._me),
            ("GET", "/gateway/bot", self._no_gateway),
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
        routes: list[web.AbstractRouteDef] = [
            web.route(method, base + path, self.guarded(f"{method} {path}", run, needs_bot=True))
            for method, path, run in table
        ]
        return routes

    def guarded(
        self, name: str, run: Callable[[web.Request], Awaitable[Result]], *, needs_bot: bool
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """*run* behind what every route has: user agent, authorization, faults, limits, the log.

        *name* is how the call log and faults call it, e.g. ``POST /channels/{channel}/messages``: no token is in it.
        """

        async def handle(request: web.Request) -> web.StreamResponse:
            started = time.perf_counter()
            fault = self.faults.take(name, self.channel_of(request))
            if fault is not None and fault.kind == "delay":
                await self._clock.sleep(fault.delay_ms)
            headers: dict[str, str] = {}
            try:
                if fault is not None and fault.kind == "status":
                    raise failed(fault)
                if fault is not None and fault.kind == "drop":
                    result = Result(0)
                else:
                    self._check(request, needs_bot=needs_bot)
                    headers = self._limit(name, request)
                    result = await run(request)
            except DiscordError as refusal:
                result, headers = Result(refusal.status, refusal.body), {**headers, **refusal.headers}
            await self._log(name, request, result, fault, (time.perf_counter() - started) * 1000)
            if fault is not None and fault.kind in ("drop", "accept_then_drop"):
                if request.transport is not None:
                    request.transport.abort()
                return web.Response(status=500)
            if result.body is None:
                return web.Response(status=result.status, headers=headers)
            return web.json_response(result.body, status=result.status, headers=headers)

        return handle

    def channel_of(self, request: web.Request) -> str | None:
        """The channel that a request is about; that of the interaction when it goes by a token."""
        channel = request.match_info.get("channel")
        if channel is None and (token := request.match_info.get("token")) is not None:
            row = self._store.conn.execute("SELECT channel FROM interactions WHERE token = ?", (token,)).fetchone()
            channel = row[0] if row else None
        return channel

    def _check(self, request: web.Request, *, needs_bot: bool) -> None:
        if not request.headers.get("User-Agent", "").startswith("DiscordBot ("):
            raise DiscordError(403, 40333, "internal network error")  # what Cloudflare's refusal looks like
        if needs_bot and request.headers.get("Authorization") != f"Bot {self.app.token}":
            raise DiscordError(401, 0, "401: Unauthorized")

    def _limit(self, name: str, request: web.Request) -> dict[str, str]:
        """The rate limit headers; 429 past the limit, when there is one. Buckets are per route and channel."""
        flood, now_ms = self._config.discord_flood, self._clock.now_ms()
        bucket = f"{name}|{self.channel_of(request)}"
        recent = self._limits.at_ms[bucket]
        count, per_ms = (flood.count, flood.per_ms) if flood else (50, 1000)
        while recent and recent[0] <= now_ms - per_ms:
            recent.popleft()
        is_over = flood is not None and len(recent) >= count
        if not is_over:
            recent.append(now_ms)
        reset_s = (recent[0] + per_ms - now_ms) / 1000
        headers = {
            "X-RateLimit-Limit": str(count),
            "X-RateLimit-Remaining": str(max(0, count - len(recent)) if flood else count - 1),
            "X-RateLimit-Reset": f"{now_ms / 1000 + reset_s:.3f}",
            "X-RateLimit-Reset-After": f"{reset_s:.3f}",
            "X-RateLimit-Bucket": f"{abs(hash(name)):016x}"[:16],
        }
        if is_over:
            raise limited(reset_s, scope="user", headers=headers)
        return headers

    async def _log(self, name: str, request: web.Request, result: Result, fault: Fault | None, took_ms: float) -> None:
        params: dict[str, Any] = {key: value for key, value in request.match_info.items() if key != "token"}
        if request.body_exists:
            try:
                params["body"] = await read_json(request)  # read before: kept by the request
            except DiscordError:
                params["body"] = None
        call = self._store.add_call(
            "discord",
            at_ms=self._clock.now_ms(),
            method=name,
            chat=self.channel_of(request),
            status=result.status,
            params=params,
            answer=result.body,
            fault=fault.kind if fault else None,
            took_ms=took_ms,
        )
        self._bus.tell("call", call)

    # routes of the bot

    async def _me(self, request: web.Request) -> Result:
        return Result(200, self.bot_user)

    async def _no_gateway(self, request: web.Request) -> Result:
        raise DiscordError(404, 0, "404: Not Found")

    async def _open_dm(self, request: web.Request) -> Result:
        person = self._store.person("discord", str((await read_body(request)).get("recipient_id")))
        if person is None:
            raise DiscordError(400, 50033, "Invalid Recipient(s)")
        return Result(200, self.wire_channel(self.direct(person)))

    async def _get_channel(self, request: web.Request) -> Result:
        return Result(200, self.wire_channel(self._channel(request)))

    async def _create_message(self, request: web.Request) -> Result:
        chat = self._channel(request)
        body = await read_body(request)
        content = self.content(body)
        pings, would_ping = pinged(content, body.get("allowed_mentions"), default=("users", "roles", "everyone"))
        nonce = body.get("nonce")
        if nonce is not None and len(str(nonce)) > MAX_NONCE:
            raise invalid("nonce", "NONCE_TYPE_INVALID_LENGTH", f"Must be {MAX_NONCE} or fewer in length.")
        self._writable(chat)
        now_ms = self._clock.now_ms()
        if nonce is not None and body.get("enforce_nonce") is True:
            known = self._store.message_with_nonce(chat, str(nonce), since_ms=now_ms - NONCE_MS)
            if known is not None:
                return Result(200, self.wire(chat, known))
        detail: dict[str, Any] = {"pings": pings, "would_ping": would_ping, "flags": int(body.get("flags") or 0)}
        detail["components"] = components(body)
        if (reference := body.get("message_reference")) is not None:
            detail.update(self._reference(chat, reference))
        message = self.add_message(chat, content, detail, nonce=None if nonce is None else str(nonce))
        return Result(200, self.wire(chat, message))

    async def _edit_message(self, request: web.Request) -> Result:
        chat = self._channel(request)
        message = self._own_message(chat, request, 50005, "Cannot edit a message authored by another user")
        self._writable(chat)
        return Result(200, self.wire(chat, self.edit(message, await read_body(request))))

    async def _delete_message(self, request: web.Request) -> Result:
        chat = self._channel(request)
        message = self._own_message(chat, request, 50003, "Cannot execute action on this channel type")
        self.delete_message(message)
        return Result(204)

    async def _typing(self, request: web.Request) -> Result:
        chat = self._channel(request)
        self._writable(chat)
        self._bus.tell("typing", {"platform": "discord", "chat": chat.id, "action": "typing", "for_ms": TYPING_MS})
        return Result(204)

    async def _react(self, request: web.Request) -> Result:
        chat = self._channel(request)
        message = self._store.message(chat, request.match_info["message"])
        if message is None:
            raise DiscordError(404, 10008, "Unknown Message")
        emoji = request.match_info["emoji"]
        if emoji.isascii() and ":" not in emoji:
            raise DiscordError(400, 10014, "Unknown Emoji")
        reactions = [*message.detail.get("reactions", ()), emoji]
        self._tell(self._store.change(message, detail={**message.detail, "reactions": reactions}, edited_ms=None))
        return Result(204)

    async def _put_commands(self, request: web.Request) -> Result:
        self._own_app(request)
        commands = await read_json(request)
        if not isinstance(commands, list) or not all(isinstance(command, dict) for command in commands):
            raise DiscordError(400, 50035, "Invalid Form Body")
        for index, command in enumerate(commands):
            if not re.fullmatch(r"[-_'\w]{1,32}", str(command.get("name", ""))):
                raise invalid(f"{index}", "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")
        kept = [{"id": str(self.snowflake()), "application_id": self.app.id, "type": 1, **c} for c in commands]
        self._store.put("discord.commands", json.dumps(kept))
        return Result(200, kept)

    async def _get_commands(self, request: web.Request) -> Result:
        self._own_app(request)
        return Result(200, json.loads(self._store.get("discord.commands") or "[]"))

    # the rules

    def _own_app(self, request: web.Request) -> None:
        if request.match_info["app"] != self.app.id:
            raise DiscordError(403, 20012, "You are not authorized to perform this action on this application")

    def _channel(self, request: web.Request) -> Chat:
        chat = self._store.chat("discord", request.match_info["channel"])
        if chat is None:
            raise DiscordError(404, 10003, "Unknown Channel")
        return chat

    def _writable(self, chat: Chat) -> None:
        if chat.facts.get("blocked"):
            if chat.kind == "dm":
                raise DiscordError(403, 50007, "Cannot send messages to this user")
            raise DiscordError(403, 50013, "Missing Permissions")

    def _own_message(self, chat: Chat, request: web.Request, code: int, why_not: str) -> Message:
        message = self._store.message(chat, request.match_info["message"])
        if message is None or message.detail.get("flags", 0) & EPHEMERAL:
            raise DiscordError(404, 10008, "Unknown Message")
        if not message.is_bot:
            raise DiscordError(403, code, why_not)
        return message

    def _reference(self, chat: Chat, reference: Any) -> dict[str, Any]:
        wanted = str(reference.get("message_id")) if isinstance(reference, dict) else ""
        if self._store.message(chat, wanted) is not None:
            return {"reply_to": wanted}
        if isinstance(reference, dict) and reference.get("fail_if_not_exists") is False:
            return {}
        raise invalid("message_reference", "MESSAGE_REFERENCE_UNKNOWN_MESSAGE", "Unknown message")

    def content(self, body: Body) -> str:
        """The text of a message body, checked. Raises 50035 past 2000 characters and 50006 when there is nothing."""
        content = body.get("content")
        if content is not None and not isinstance(content, str):
            raise invalid("content", "BASE_TYPE_BAD_STRING", "Could not interpret string value.")
        if content is not None and len(content) > MAX_CONTENT:
            raise invalid("content", "BASE_TYPE_MAX_LENGTH", f"Must be {MAX_CONTENT} or fewer in length.")
        content = (content or "").strip()
        if not content and not body.get("embeds") and not body.get("attachments") and not body.get("components"):
            raise DiscordError(400, 50006, "Cannot send an empty message")
        return content

    # what is shared with the interactions

    def add_message(
        self,
        chat: Chat,
        content: str,
        detail: Mapping[str, Any],
        *,
        author: str | None = None,
        nonce: str | None = None,
    ) -> Message:
        """Write in a channel: the bot does, unless *author* says who."""
        message = self._store.add_message(
            chat,
            str(self.snowflake()),
            author=author or self.app.id,
            is_bot=author is None,
            text=content,
            detail=detail,
            now_ms=self._clock.now_ms(),
            nonce=nonce,
        )
        self._tell(message)
        return message

    def change_message(self, message: Message, content: str, **detail: Any) -> Message:
        """The message with another text; *detail* is added to what it has."""
        changed = self._store.change(
            message, text=content, detail={**message.detail, **detail}, edited_ms=self._clock.now_ms()
        )
        self._tell(changed)
        return changed

    def edit(self, message: Message, body: Body) -> Message:
        """*message* with what *body* names; what it does not name stays. An edit pings nobody."""
        buttons = {"components": components(body)} if "components" in body else {}
        content = self.content(body) if "content" in body else message.text
        return self.change_message(message, content, **buttons)

    def direct(self, person: Person) -> Chat:
        """Their direct messages with the bot, opened if nobody has yet."""
        for chat in self._store.chats("discord"):
            if chat.kind == "dm" and person.id in chat.members:
                return chat
        chat = Chat("discord", str(self.snowflake()), "dm", person.name, (person.id,), {})
        self._store.add_chat(chat)
        self._bus.tell("chat", {"platform": "discord", "chat": chat.id})
        return chat

    def delete_message(self, message: Message) -> None:
        self._store.delete(message, now_ms=self._clock.now_ms())
        self._bus.tell("chat", {"platform": "discord", "chat": message.chat})

    def snowflake(self) -> int:
        """A fresh id: milliseconds since 2015, then a counter."""
        wanted = (self._clock.now_ms() - EPOCH_MS) << 22
        kept = self._limits.last_snowflake or int(self._store.get("discord.snowflake") or 0)
        self._limits.last_snowflake = max(wanted, kept + 1)
        self._store.put("discord.snowflake", str(self._limits.last_snowflake))
        return self._limits.last_snowflake

    def _tell(self, message: Message) -> None:
        self._bus.tell("message", {"platform": "discord", "chat": message.chat, "id": message.id})

    # how Discord writes things

    @property
    def bot_user(self) -> dict[str, Any]:
        return {
            "id": self.app.id,
            "username": BOT_NAME.lower(),
            "global_name": None,
            "avatar": None,
            "discriminator": "0001",
            "public_flags": 0,
            "bot": True,
        }

    def wire_user(self, person: Person) -> dict[str, Any]:
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

    def wire_channel(self, chat: Chat) -> dict[str, Any]:
        last = self._store.last_message(chat)
        common = {"id": chat.id, "flags": 0, "last_message_id": last.id if last else None}
        if chat.kind == "dm":
            people = [self._store.person("discord", member) for member in chat.members]
            return {**common, "type": 1, "recipients": [self.wire_user(person) for person in people if person]}
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

    def wire(self, chat: Chat, message: Message) -> dict[str, Any]:
        """The Message object."""
        person = None if message.is_bot else self._store.person("discord", message.author)
        pings = message.detail.get("pings", [])
        wired: dict[str, Any] = {
            "id": message.id,
            "channel_id": chat.id,
            "type": 0,
            "content": message.text,
            "author": self.wire_user(person) if person else self.bot_user,
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
            wired.update(application_id=self.app.id, webhook_id=self.app.id)
            wired["interaction_metadata"] = {"id": interaction, "type": 2}
        if (reply_to := message.detail.get("reply_to")) is not None:
            wired["message_reference"] = {"type": 0, "channel_id": chat.id, "message_id": reply_to}
        row = self._store.conn.execute("SELECT nonce FROM messages WHERE seq = ?", (message.seq,)).fetchone()
        return {**wired, "nonce": row[0]} if row and row[0] is not None else wired


def _iso(at_ms: int) -> str:
    seconds, milliseconds = divmod(at_ms, 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{milliseconds:03d}000+00:00"


def _numbered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Components as Discord gives them back: each with a number of its own, in the order in which they stand."""
    numbers = iter(range(1, 1000))
    return [
        {**row, "id": next(numbers), "components": [{**b, "id": next(numbers)} for b in row["components"]]}
        for row in rows
    ]
