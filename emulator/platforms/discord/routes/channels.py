"""The routes with which a bot reads and writes in channels: messages, reactions, typing, direct channels.

Source: https://discord.com/developers/docs/resources/message, resources/channel
"""

import unicodedata
from typing import Any

from aiohttp import web

from emulator.platforms import reactions
from emulator.platforms.bus import EventBus
from emulator.platforms.config import Clock
from emulator.platforms.discord.app import DiscordApp
from emulator.platforms.discord.calls import ApiResult, DiscordError, invalid, read_body
from emulator.platforms.discord.message_body import read_message
from emulator.platforms.discord.messages import DiscordMessages
from emulator.platforms.discord.objects import DiscordObjects
from emulator.platforms.discord.routes.places import DiscordPlaces, is_found
from emulator.platforms.store import FakeChat, FakeMessage, PlatformStore

MAX_NONCE, MAX_KINDS = 25, 20
NONCE_MS = 300_000  # how long Discord remembers a nonce: "some minutes"
TYPING_MS = 10_000
MAX_PAGE = 100


class ChannelRoutes:
    """Serves the routes."""

    def __init__(
        self,
        clock: Clock,
        store: PlatformStore,
        bus: EventBus,
        app: DiscordApp,
        objects: DiscordObjects,
        messages: DiscordMessages,
        places: DiscordPlaces,
    ) -> None:
        self._clock, self._store, self._bus, self._app = clock, store, bus, app
        self._objects, self._messages, self._places = objects, messages, places

    def table(self) -> tuple[tuple[str, str, Any], ...]:
        one = "/channels/{channel}/messages/{message}"
        return (
            ("POST", "/users/@me/channels", self._open_dm),
            ("GET", "/channels/{channel}", self._get_channel),
            ("GET", "/channels/{channel}/messages", self._list),
            ("POST", "/channels/{channel}/messages", self._create),
            ("GET", one, self._get),
            ("PATCH", one, self._edit),
            ("DELETE", one, self._delete),
            ("POST", "/channels/{channel}/typing", self._typing),
            ("PUT", one + "/reactions/{emoji}/@me", self._react),
            ("DELETE", one + "/reactions/{emoji}/@me", self._take_back),
            ("GET", one + "/reactions/{emoji}", self._who_reacted),
        )

    async def _open_dm(self, request: web.Request) -> ApiResult:
        person = self._store.person("discord", str((await read_body(request)).get("recipient_id")))
        if person is None:
            raise DiscordError(400, 50033, "Invalid Recipient(s)")
        return ApiResult(200, self._objects.channel(self._messages.direct(person)))

    async def _get_channel(self, request: web.Request) -> ApiResult:
        return ApiResult(200, self._objects.channel(self._places.channel(request)))

    async def _list(self, request: web.Request) -> ApiResult:
        """The newest first; at most one of ``before``, ``after`` and ``around`` counts."""
        chat, query = self._places.channel(request), request.query
        limit = int(query["limit"]) if query.get("limit", "").isdecimal() else 50
        if not 1 <= limit <= MAX_PAGE:
            raise invalid("limit", "NUMBER_TYPE_MAX", f"int value should be less than or equal to {MAX_PAGE}.")
        shown = [message for message in self._store.transcript(chat, limit=5000) if is_found(message)]
        shown.sort(key=lambda message: int(message.id), reverse=True)
        picked = _page(shown, query, limit)
        return ApiResult(200, [self._objects.message(chat, message) for message in picked])

    async def _get(self, request: web.Request) -> ApiResult:
        chat = self._places.channel(request)
        return ApiResult(200, self._objects.message(chat, self._places.message(chat, request)))

    async def _create(self, request: web.Request) -> ApiResult:
        chat = self._places.channel(request)
        body, uploads = await read_message(request)
        content, detail = self._messages.bodies.created(body, uploads, pings=("users", "roles", "everyone"))
        nonce = body.get("nonce")
        if nonce is not None and len(str(nonce)) > MAX_NONCE:
            raise invalid("nonce", "NONCE_TYPE_INVALID_LENGTH", f"Must be {MAX_NONCE} or fewer in length.")
        self._places.check_writable(chat)
        if nonce is not None and body.get("enforce_nonce") is True:
            since_ms = self._clock.now_ms() - NONCE_MS
            known = self._store.message_with_nonce(chat, str(nonce), since_ms=since_ms)
            if known is not None:
                return ApiResult(200, self._objects.message(chat, known))
        if (reference := body.get("message_reference")) is not None:
            detail.update(self._reference(chat, reference, body.get("allowed_mentions")))
        message = self._messages.add(chat, content, detail, nonce=None if nonce is None else str(nonce))
        return ApiResult(200, self._objects.message(chat, message))

    async def _edit(self, request: web.Request) -> ApiResult:
        chat = self._places.channel(request)
        message = self._places.own_message(chat, request, 50005, "Cannot edit a message authored by another user")
        self._places.check_writable(chat)
        body, uploads = await read_message(request)
        return ApiResult(200, self._objects.message(chat, self._messages.edit(message, body, uploads)))

    async def _delete(self, request: web.Request) -> ApiResult:
        chat = self._places.channel(request)
        code = 50003 if chat.kind == "dm" else 50013
        why_not = "Cannot execute action on a DM channel" if chat.kind == "dm" else "Missing Permissions"
        self._messages.delete(self._places.own_message(chat, request, code, why_not))
        return ApiResult(204)

    async def _typing(self, request: web.Request) -> ApiResult:
        chat = self._places.channel(request)
        self._places.check_writable(chat)
        self._bus.publish("typing", {"platform": "discord", "chat": chat.id, "action": "typing", "for_ms": TYPING_MS})
        return ApiResult(204)

    async def _react(self, request: web.Request) -> ApiResult:
        chat, message, emoji = self._reacted(request)
        self._places.check_writable(chat)
        known = reactions.read(message.detail)
        if emoji not in known and len(known) >= MAX_KINDS:
            raise DiscordError(400, 30010, f"Maximum number of reactions reached ({MAX_KINDS})")
        self._messages.react(message, emoji)
        return ApiResult(204)

    async def _take_back(self, request: web.Request) -> ApiResult:
        _, message, emoji = self._reacted(request)
        self._messages.react(message, emoji, is_removed=True)
        return ApiResult(204)

    async def _who_reacted(self, request: web.Request) -> ApiResult:
        _, message, emoji = self._reacted(request)
        users = [self._objects.user_of(user) for user in reactions.read(message.detail).get(emoji, ())]
        return ApiResult(200, [user for user in users if user is not None])

    def _reacted(self, request: web.Request) -> tuple[FakeChat, FakeMessage, str]:
        chat = self._places.channel(request)
        message, emoji = self._places.message(chat, request), request.match_info["emoji"]
        if not _is_emoji(emoji):
            raise DiscordError(400, 10014, "Unknown Emoji")
        return chat, message, emoji

    def _reference(self, chat: FakeChat, reference: Any, allowed: Any) -> dict[str, Any]:
        wanted = str(reference.get("message_id")) if isinstance(reference, dict) else ""
        replied = self._store.message(chat, wanted)
        if replied is not None:
            is_pinged = not isinstance(allowed, dict) or allowed.get("replied_user", False) is True
            author = [replied.author] if is_pinged and not replied.is_bot else []
            return {"reply_to": wanted, "mentions": author}
        if isinstance(reference, dict) and reference.get("fail_if_not_exists") is False:
            return {}
        raise invalid("message_reference", "MESSAGE_REFERENCE_UNKNOWN_MESSAGE", "Unknown message")


def _page(shown: list[FakeMessage], query: Any, limit: int) -> list[FakeMessage]:
    """*limit* of the messages, which come newest first."""
    ids = {key: int(query[key]) for key in ("around", "before", "after") if query.get(key, "").isdecimal()}
    if "around" in ids:
        near = sorted(shown, key=lambda message: abs(int(message.id) - ids["around"]))[:limit]
        return sorted(near, key=lambda message: int(message.id), reverse=True)
    if "before" in ids:
        return [message for message in shown if int(message.id) < ids["before"]][:limit]
    if "after" in ids:
        return [message for message in shown if int(message.id) > ids["after"]][-limit:]
    return shown[:limit]


def _is_emoji(emoji: str) -> bool:
    """Whether *emoji* is one of Unicode's; this server has no own ones."""
    if ":" in emoji or not emoji:
        return False
    return any(unicodedata.category(sign) in ("So", "Sk", "Cn") or sign in "\ufe0f\u20e3" for sign in emoji)
