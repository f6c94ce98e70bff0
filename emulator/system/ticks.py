"""The ticks: the ticker of :mod:`infra.ticker` in the supervisor's loop, with the gateway's HTTP client."""

import asyncio
from collections.abc import Sequence

from emulator.system.functions import Functions
from emulator.system.gateway import Gateway
from infra.template.specs import TickSpec
from infra.ticker import Tick, Ticker
from shared.core.http_head import TICK_HEADER

_LIMIT_S = 10.0


class Ticks:
    """The running ticker of one template."""

    def __init__(self, functions: Functions, gateway: Gateway, secret: str) -> None:
        self._fleet = functions
        self._gateway = gateway
        self._headers = {TICK_HEADER: secret}
        self._running: asyncio.Task[None] | None = None

    def start(self, ticks: Sequence[TickSpec]) -> None:
        """Run these ticks instead of the present ones; none: nothing ticks."""
        if self._running is not None:
            self._running.cancel()
            self._running = None
        if not ticks:
            return
        targets = [
            Tick(tick.function, tick.every_ms, f"http://127.0.0.1:{self._fleet[tick.function].port}{tick.path}")
            for tick in ticks
        ]
        self._running = asyncio.get_running_loop().create_task(Ticker(targets, self._post).run())

    async def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def _post(self, tick: Tick) -> int:
        """Send one ``POST /tick`` with the secret; returns the status of the response."""
        return await self._gateway.post(tick.url, self._headers, limit_s=_LIMIT_S)
