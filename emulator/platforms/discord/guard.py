"""The checks before every route of the fake Discord: user agent, authorization, faults, rate limits, the log of calls.

Source: https://discord.com/developers/docs/reference#user-agent, #authentication, topics/rate-limits
"""

import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from aiohttp import web

from emulator.base.faults import Fault, Faults
from emulator.platforms import limits
from emulator.platforms.bus import EventBus
from emulator.platforms.config import PlatformsConfig, RateLimit
from emulator.platforms.discord import schema
from emulator.platforms.discord.app import DiscordApp
from emulator.platforms.discord.calls import MAX_BODY_BYTES, ApiResult, DiscordError, error_of, rate_limited, read_json
from emulator.platforms.rate_window import RateWindow
from emulator.platforms.request_parts import hang_up
from emulator.platforms.store import PlatformStore

BASE = "/discord/api/v10"
GLOBAL = RateLimit(50, 1000)  # all requests with the bot's token
# Discord publishes no buckets: these are what bots have long seen. Others follow the last one.
BUCKETS = {
    "POST /channels/{channel}/messages": RateLimit(5, 5000),
    "PATCH /channels/{channel}/messages/{message}": RateLimit(5, 5000),
    "DELETE /channels/{channel}/messages/{message}": RateLimit(5, 1000),
    "PUT /channels/{channel}/messages/{message}/reactions/{emoji}/@me": RateLimit(1, 250),
    "DELETE /channels/{channel}/messages/{message}/reactions/{emoji}/@me": RateLimit(1, 250),
    "POST /channels/{channel}/typing": RateLimit(5, 5000),
    "POST /webhooks/{app}/{token}": RateLimit(5, 2000),
    "PATCH /webhooks/{app}/{token}/messages/{message}": RateLimit(5, 2000),
    "PUT /applications/{app}/commands": RateLimit(5, 20_000),
}
OTHERS = RateLimit(50, 1000)
INVALID = RateLimit(10_000, 600_000)  # answers 401, 403 and 429 to one machine, before Cloudflare bans it

_BAN = "<html><head><title>Access denied | discord.com used Cloudflare</title></head><body>error 1015</body></html>"

Route = Callable[[web.Request], Awaitable[ApiResult]]


class RouteGuard:
    """Checks a request, runs its route, and writes the result as an HTTP answer."""

    def __init__(self, config: PlatformsConfig, store: PlatformStore, bus: EventBus, app: DiscordApp) -> None:
        self._config, self._store, self._bus, self._app = config, store, bus, app
        self._clock = config.clock
        self._recent = RateWindow()
        self.faults = config.faults.get("discord") or Faults("discord", self._clock.now_ms)

    def routes(self, table: Iterable[tuple[str, str, Route]], *, needs_bot: bool) -> list[web.AbstractRouteDef]:
        """The routes of *table* (method, path, handler in each row), behind the guard."""
        return [
            web.route(method, BASE + path, self._guarded(f"{method} {path}", run, needs_bot=needs_bot))
            for method, path, run in table
        ]

    def _guarded(
        self, name: str, run: Route, *, needs_bot: bool
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """*run* behind the checks of every route: user agent, authorization, faults, limits, the log.

        *name* identifies the route in the log and in faults: ``POST /channels/{channel}/messages``, without tokens.
        """

        async def handle(request: web.Request) -> web.StreamResponse:
            if self._is_banned():
                return web.Response(status=429, text=_BAN, content_type="text/html")
            started = time.perf_counter()
            fault = self.faults.take(name, self._channel_of(request))
            if fault is not None and fault.kind == "delay":
                await self._clock.sleep(fault.delay_ms)
            headers: dict[str, str] = {}
            try:
                if fault is not None and fault.kind == "status":
                    raise error_of(fault)
                if fault is not None and fault.kind == "drop":
                    result = ApiResult(0)
                else:
                    self._check(request, needs_bot=needs_bot)
                    headers = self._limit(name, request, needs_bot=needs_bot)
                    await _check_body(name, request)
                    result = await run(request)
            except DiscordError as refusal:
                result, headers = ApiResult(refusal.status, refusal.body), {**headers, **refusal.headers}
            self._count_refusal(result, headers)
            await self._log(name, request, result, fault, (time.perf_counter() - started) * 1000)
            if fault is not None and fault.kind in ("drop", "accept_then_drop"):
                return hang_up(request)
            if result.body is None:
                return web.Response(status=result.status, headers=headers)
            raw = json.dumps(result.body, ensure_ascii=False).encode()  # and no charset: discord.py wants it so
            return web.Response(body=raw, content_type="application/json", status=result.status, headers=headers)

        return handle

    def _channel_of(self, request: web.Request) -> str | None:
        """The channel of a request; for a request with a token, the channel of its interaction."""
        channel = request.match_info.get("channel")
        if channel is None and (token := request.match_info.get("token")) is not None:
            row = self._store.conn.execute("SELECT channel FROM interactions WHERE token = ?", (token,)).fetchone()
            channel = row[0] if row else None
        return channel

    def _check(self, request: web.Request, *, needs_bot: bool) -> None:
        if not needs_bot:  # discord.py names itself on the other routes alone, and gets through
            return
        if not request.headers.get("User-Agent", "").startswith("DiscordBot ("):
            raise DiscordError(403, 40333, "internal network error")  # as Cloudflare refuses
        if request.headers.get("Authorization") != f"Bot {self._app.token}":
            raise DiscordError(401, 0, "401: Unauthorized")

    def _limit(self, name: str, request: web.Request, *, needs_bot: bool) -> dict[str, str]:
        """The rate limit headers. Raises 429 beyond a limit. Buckets are per route and channel, or token."""
        given = self._config.rate_limits.get("discord")
        is_on = given is not None or limits.are_on(self._config, self._store)
        limit, now_ms = given or BUCKETS.get(name, OTHERS), self._clock.now_ms()
        key = "reactions" if "/reactions/" in name else name
        place = request.match_info.get("token") or self._channel_of(request)
        room = self._recent.take(f"{key}|{place}", limit, now_ms=now_ms)
        headers = {
            "X-RateLimit-Limit": str(limit.count),
            "X-RateLimit-Remaining": str(room.left if is_on else limit.count - 1),
            "X-RateLimit-Reset": f"{(now_ms + room.opens_ms) / 1000:.3f}",
            "X-RateLimit-Reset-After": f"{room.opens_ms / 1000:.3f}",
            "X-RateLimit-Bucket": hashlib.sha256(key.encode()).hexdigest()[:32],
        }
        if is_on and room.is_over:
            raise rate_limited(room.opens_ms / 1000, scope="user", headers=headers)
        if needs_bot and limits.are_on(self._config, self._store):
            everything = self._recent.take("global", GLOBAL, now_ms=now_ms)
            if everything.is_over:
                raise rate_limited(everything.opens_ms / 1000, scope="global", headers={"X-RateLimit-Global": "true"})
        return headers

    def _is_banned(self) -> bool:
        """Whether this machine got too many refusals: Cloudflare answers then, and not Discord."""
        return (
            limits.are_on(self._config, self._store)
            and self._recent.wait_ms("invalid", INVALID, 1, now_ms=self._clock.now_ms()) > 0
        )

    def _count_refusal(self, result: ApiResult, headers: Mapping[str, str]) -> None:
        if result.status in (401, 403, 429) and headers.get("X-RateLimit-Scope") != "shared":
            self._recent.take("invalid", INVALID, now_ms=self._clock.now_ms())

    async def _log(
        self, name: str, request: web.Request, result: ApiResult, fault: Fault | None, took_ms: float
    ) -> None:
        params: dict[str, Any] = {key: value for key, value in request.match_info.items() if key != "token"}
        if request.body_exists:
            try:
                params["body"] = await read_json(request)  # the request keeps a body that was read
            except DiscordError:
                params["body"] = None
        call = self._store.requests.add_call(
            "discord",
            at_ms=self._clock.now_ms(),
            method=name,
            chat=self._channel_of(request),
            status=result.status,
            params=params,
            answer=result.body,
            fault=fault.kind if fault else None,
            took_ms=took_ms,
        )
        self._bus.publish("call", call)


async def _check_body(name: str, request: web.Request) -> None:
    """Refuse a body that is too large, or that does not fit Discord's description of the route."""
    if (request.content_length or 0) > MAX_BODY_BYTES:
        raise DiscordError(413, 40005, "Request entity too large")
    if request.method != "GET" and request.body_exists:
        body = await read_json(request)
        if not isinstance(body, dict) or body:
            schema.check_body(name, body)
