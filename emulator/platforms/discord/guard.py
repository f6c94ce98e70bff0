"""The checks before every route of the fake Discord: user agent, authorization, faults, rate limits, the log of calls.

Source: https://discord.com/developers/docs/reference#user-agent, #authentication, topics/rate-limits
"""

import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from aiohttp import web

from emulator.platforms.bus import EventBus
from emulator.platforms.config import PlatformsConfig, RateLimit
from emulator.platforms.discord.calls import ApiResult, DiscordError, error_of, rate_limited, read_json
from emulator.platforms.faults import Fault, Faults, hang_up
from emulator.platforms.initial_people import DiscordApp
from emulator.platforms.rate_window import RateWindow
from emulator.platforms.store import PlatformStore

BASE = "/discord/api/v10"
UNLIMITED = RateLimit(50, 1000)  # for the headers of a route without a limit

Route = Callable[[web.Request], Awaitable[ApiResult]]


class RouteGuard:
    """Checks a request, runs its route, and writes the result as an HTTP answer."""

    def __init__(self, config: PlatformsConfig, store: PlatformStore, bus: EventBus, app: DiscordApp) -> None:
        self._config, self._store, self._bus, self._app = config, store, bus, app
        self._clock = config.clock
        self._recent = RateWindow()
        self.faults = Faults()

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
                    headers = self._limit(name, request)
                    result = await run(request)
            except DiscordError as refusal:
                result, headers = ApiResult(refusal.status, refusal.body), {**headers, **refusal.headers}
            await self._log(name, request, result, fault, (time.perf_counter() - started) * 1000)
            if fault is not None and fault.kind in ("drop", "accept_then_drop"):
                return hang_up(request)
            if result.body is None:
                return web.Response(status=result.status, headers=headers)
            return web.json_response(result.body, status=result.status, headers=headers)

        return handle

    def _channel_of(self, request: web.Request) -> str | None:
        """The channel of a request; for a request with a token, the channel of its interaction."""
        channel = request.match_info.get("channel")
        if channel is None and (token := request.match_info.get("token")) is not None:
            row = self._store.conn.execute("SELECT channel FROM interactions WHERE token = ?", (token,)).fetchone()
            channel = row[0] if row else None
        return channel

    def _check(self, request: web.Request, *, needs_bot: bool) -> None:
        if not request.headers.get("User-Agent", "").startswith("DiscordBot ("):
            raise DiscordError(403, 40333, "internal network error")  # as Cloudflare refuses
        if needs_bot and request.headers.get("Authorization") != f"Bot {self._app.token}":
            raise DiscordError(401, 0, "401: Unauthorized")

    def _limit(self, name: str, request: web.Request) -> dict[str, str]:
        """The rate limit headers. Raises 429 beyond the limit, if there is one. Buckets are per route and channel."""
        limit, now_ms = self._config.discord_rate_limit, self._clock.now_ms()
        shown = limit or UNLIMITED
        room = self._recent.take(f"{name}|{self._channel_of(request)}", shown, now_ms=now_ms)
        headers = {
            "X-RateLimit-Limit": str(shown.count),
            "X-RateLimit-Remaining": str(room.left if limit else shown.count - 1),
            "X-RateLimit-Reset": f"{(now_ms + room.opens_ms) / 1000:.3f}",
            "X-RateLimit-Reset-After": f"{room.opens_ms / 1000:.3f}",
            "X-RateLimit-Bucket": f"{abs(hash(name)):016x}"[:16],
        }
        if limit and room.is_over:
            raise rate_limited(room.opens_ms / 1000, scope="user", headers=headers)
        return headers

    async def _log(
        self, name: str, request: web.Request, result: ApiResult, fault: Fault | None, took_ms: float
    ) -> None:
        params: dict[str, Any] = {key: value for key, value in request.match_info.items() if key != "token"}
        if request.body_exists:
            try:
                params["body"] = await read_json(request)  # the request keeps a body that was read
            except DiscordError:
                params["body"] = None
        call = self._store.add_call(
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
