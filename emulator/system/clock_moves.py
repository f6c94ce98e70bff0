"""Moves the emulator's clock: at once, or through each instant at which something is due on the way.

On the way the clock leaps to the next instant that the rows name: a planned run, a retry, a deadline. There the
functions get their ticks, and what is due is done before the clock leaps again. Meanwhile it goes at the machine's
pace: a turn of a second takes a second on both clocks, so no lease runs out and no run is missed. A clock that is
faster goes the same way, so far in each moment.

``sweep`` is ticked at each deadline, and else every six hours of the way, or of a longer one 28 times.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import Any

import aiohttp
import apsw
from aiohttp import web

from emulator.base.clock_page import ClockPage
from emulator.base.console import Console
from emulator.base.errors import EmulatorError, InvalidInput, TimedOut
from emulator.base.hints import command_line
from emulator.storage import due
from emulator.system.components import Components
from infra.template.specs import TickSpec
from shared.core.http_head import TICK_HEADER
from shared.core.time import clock
from shared.core.time.durations import time_span
from shared.db.engine.connection import open_connection

FASTEST = 100_000
EARLIEST_MS, LATEST_MS = 946_684_800_000, 7_258_118_400_000  # 2000 and 2200
SETTLE_LIMIT_S = 600.0  # for what is due at one instant: a turn of a real agent takes its time
_LOOK_EVERY_S = 0.005
_TICK_EVERY_S = 0.5  # while work is under way
_THAW_AFTER_S = 1.0  # what waits a moment, as between two sends to one chat, waits for a clock that stands still
_STEP_S = 0.05  # of a faster clock
_TICK_LIMIT_S = 60.0
_MINUTE_MS = 60_000
_SWEEP_EVERY_MS = 6 * 60 * _MINUTE_MS
_MOST_SWEEPS = 28
_SWEEP_EVERY_S = 1.0  # of the machine's clock: sooner than that only after those six hours


class ClockMoves:
    """The moves of one emulator's clock, one at a time."""

    def __init__(self, components: Components, page: ClockPage, console: Console) -> None:
        self._components = components
        self._page = page
        self._console = console
        self._moving = asyncio.Lock()
        self._faster: asyncio.Task[None] | None = None
        self._swept_ms, self._swept_s = page.now_ms(), time.monotonic()

    async def jump(self, to_ms: int, *, is_leap: bool, limit_s: float = SETTLE_LIMIT_S) -> int:
        """Move the clock to *to_ms*; returns at how many instants something was due on the way.

        Args:
            is_leap: at once, as after a pause of Postroom of that length.
            limit_s: how long what is due at one instant may take.

        Raises:
            InvalidInput: there are rows of a later instant, or it is not of these centuries.
            TimedOut: the work at an instant took longer; the clock goes on from there.
        """
        if not EARLIEST_MS <= to_ms < LATEST_MS:
            raise InvalidInput("the clock can't be moved there: choose an instant from 2000 to 2199")
        await self._end_faster()
        async with self._moving:
            if to_ms < self._page.now_ms():
                self._refuse_earlier(to_ms)
            elif not is_leap:
                with closing(self._open()) as conn:
                    stops = await self._go(conn, to_ms, limit_s)
                    await self._sweep()
                    await self._settle(conn, limit_s)
                return stops
            self._page.set_to(to_ms)
            await self._tick(self._components.ticks)
            return 0

    async def run_at(self, speed: int) -> None:
        """Let the clock run from where it is, so many times as fast, as far as the work on the way allows."""
        await self._end_faster()
        self._page.go(speed)
        if speed != 1:
            self._faster = asyncio.get_running_loop().create_task(self._run_at(speed))

    async def freeze(self) -> None:
        """Let it stand still."""
        await self._end_faster()
        self._page.freeze()

    async def reset(self, *, is_forced: bool) -> None:
        """Let it be the machine's clock again.

        Raises:
            InvalidInput: there are rows of a later instant.
        """
        await self._end_faster()
        async with self._moving:
            if not is_forced:
                self._refuse_earlier(clock.machine_ms())
            self._page.reset()
            await self._tick(self._components.ticks)

    async def close(self) -> None:
        """The emulator stops: a faster clock goes on at the machine's pace."""
        await self._end_faster()

    async def _end_faster(self) -> None:
        if self._faster is not None:
            self._faster.cancel()
            await asyncio.gather(self._faster, return_exceptions=True)
            self._faster = None
            self._page.go()

    async def _run_at(self, speed: int) -> None:
        begun_s, begun_ms = time.monotonic(), self._page.now_ms()
        try:
            with closing(self._open()) as conn:
                while True:
                    async with self._moving:
                        to_ms = begun_ms + int((time.monotonic() - begun_s) * 1000 * speed)
                        await self._go(conn, to_ms, SETTLE_LIMIT_S)
                    await asyncio.sleep(_STEP_S)
        except (EmulatorError, apsw.Error) as error:
            self._page.go()
            self._console.event("clock", f"it is no longer faster: {error}", level="error")

    async def _go(self, conn: apsw.Connection, to_ms: int, limit_s: float) -> int:
        """Do what is due now, go to the next instant, and so on; returns how many there were."""
        stops = 0
        await self._settle(conn, limit_s)
        sweep_every_ms = max(_SWEEP_EVERY_MS, (to_ms - self._page.now_ms()) // _MOST_SWEEPS)
        while (now_ms := self._page.now_ms()) < to_ms:
            found, deadline = due.next_due(conn, now_ms=now_ms), due.next_deadline(conn, now_ms=now_ms)
            stop_ms = min(to_ms, max(now_ms, self._swept_ms + sweep_every_ms), to_ms if found is None else found)
            self._page.set_to(stop_ms)
            if self._is_sweep_due(stop_ms, sweep_every_ms) or (deadline is not None and deadline <= stop_ms):
                await self._sweep()
            if found is not None and found <= stop_ms:
                stops += 1
                await self._tick(self._often)
                await self._settle(conn, limit_s)
        return stops

    async def _settle(self, conn: apsw.Connection, limit_s: float) -> None:
        """Do what is due at this instant, and what follows from it. A clock that stood still does so again then.

        Raises:
            TimedOut
        """
        is_frozen = self._page.facts.is_frozen
        try:
            await self._settle_running(conn, limit_s, is_frozen=is_frozen)
        finally:
            if is_frozen:
                self._page.freeze()

    async def _settle_running(self, conn: apsw.Connection, limit_s: float, *, is_frozen: bool) -> None:
        begun_s = tick_at_s = time.monotonic()
        while not ((is_idle := due.is_idle(conn, now_ms=self._page.now_ms())) and due.is_planned(conn)):
            now_s = time.monotonic()
            if now_s - begun_s > limit_s:
                raise TimedOut(
                    f"what is due at this instant is not done after {limit_s:g} s: "
                    f"`{command_line('queue', self._components.state.path)}` shows what runs and waits. The jump "
                    f"ends here"
                )
            if is_frozen and now_s - begun_s > _THAW_AFTER_S:
                self._page.go()
            if is_idle or now_s >= tick_at_s:
                await self._tick(self._often)
                tick_at_s = now_s + _TICK_EVERY_S
            await asyncio.sleep(_LOOK_EVERY_S)

    @property
    def _often(self) -> list[TickSpec]:
        return [tick for tick in self._components.ticks if tick.function != "sweep"]

    async def _sweep(self) -> None:
        await self._tick([tick for tick in self._components.ticks if tick.function == "sweep"])
        self._swept_ms, self._swept_s = self._page.now_ms(), time.monotonic()

    def _is_sweep_due(self, now_ms: int, every_ms: int) -> bool:
        waited_ms, waited_s = now_ms - self._swept_ms, time.monotonic() - self._swept_s
        return waited_ms >= every_ms or (waited_ms >= _MINUTE_MS and waited_s >= _SWEEP_EVERY_S)

    async def _tick(self, ticks: Sequence[TickSpec]) -> None:
        """Send these ticks; a function that does not answer gets its next one."""
        headers = {TICK_HEADER: self._components.tick_secret}
        functions, gateway = self._components.functions, self._components.gateway

        async def send(tick: TickSpec) -> None:
            url = f"http://127.0.0.1:{functions[tick.function].port}{tick.path}"
            with suppress(aiohttp.ClientError, TimeoutError):
                await gateway.post(url, headers, limit_s=_TICK_LIMIT_S)

        await asyncio.gather(*map(send, ticks))

    def _refuse_earlier(self, to_ms: int) -> None:
        """
        Raises:
            InvalidInput: there are rows of a later instant.
        """
        with closing(self._open()) as conn:
            newest = due.newest(conn)
        if newest is not None and newest > to_ms:
            state = self._components.state.path
            raise InvalidInput(
                f"the newest row is {time_span(newest - to_ms)} later than that, and rows are never of the future. To "
                f"begin anew: `{command_line('stop', state)}` and `{command_line('data reset', state)}`. "
                f"`{command_line('clock reset --force', state)}` does it anyway: then what is planned has to "
                f"wait until the machine's clock has come so far"
            )

    def _open(self) -> apsw.Connection:
        return open_connection(self._components.state.database, readonly=True)


async def answer(moves: ClockMoves, page: ClockPage, console: Console, request: web.Request) -> web.Response:
    """``POST /_emulator/clock``: one move, such as ``{"move": "jump", "to": ms}``; the answer comes when it is done."""
    try:
        stops = await _make(moves, page, await request.json())
    except EmulatorError as error:
        return web.json_response({"error": str(error), "code": error.exit_code}, status=409)
    except (KeyError, TypeError, ValueError, OverflowError):
        return web.json_response({"error": 'a move is such as {"move": "jump", "by": 86400000}'}, status=400)
    facts = page.facts
    console.event("clock", facts.sentence or "it is the machine's clock", ahead_ms=facts.ahead_ms)
    return web.json_response({**facts.as_dict(), "stops": stops})


async def _make(moves: ClockMoves, page: ClockPage, asked: dict[str, Any]) -> int:
    kind = asked["move"]
    if kind == "jump":
        to_ms = int(asked["to"]) if "to" in asked else page.now_ms() + int(asked["by"])
        limit_s = float(asked.get("limit", SETTLE_LIMIT_S))
        return await moves.jump(to_ms, is_leap=bool(asked.get("leap")), limit_s=limit_s)
    if kind == "freeze":
        await moves.freeze()
    elif kind == "speed":
        await moves.run_at(min(max(1, int(asked["speed"])), FASTEST))
    elif kind == "reset":
        await moves.reset(is_forced=bool(asked.get("force")))
    else:
        raise ValueError(kind)
    return 0
