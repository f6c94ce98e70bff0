"""Posts a tick to each function on a fixed grid: ``python -m infra.ticker dispatch=5s@9002 deliver=1s@9003``.

A tick is only a wake-up; the rows say what is due. So a late tick is not repeated, and a tick is skipped while the one
before still runs. A function that does not answer costs one log line when it stops answering and one when it answers
again. The emulator runs the same class in its own loop.
"""

import asyncio
import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from infra.watchdog import Watchdog
from shared.core import logs
from shared.core.errors import PostroomError
from shared.core.http_head import TICK_HEADER
from shared.core.time.durations import parse_ms

ANSWER_TIMEOUT_S = 10.0

_FORM = re.compile(r"([a-z][a-z0-9_]*)=([0-9a-z]+)@([1-9][0-9]{0,4})")

log = logs.get()


class TickFailed(Exception):
    """The tick did not reach the function, or got no response; the message says why."""


@dataclass(frozen=True, slots=True)
class Tick:
    """``POST url``, which *function* answers, every *every_ms*."""

    function: str
    every_ms: int
    url: str

    @property
    def port(self) -> int | None:
        return urlsplit(self.url).port


@dataclass(slots=True)
class _Target:
    """One function: its next time on the grid, the POST under way, and the result of the last tick."""

    tick: Tick
    due_ms: int
    running: asyncio.Task[None] | None = None
    trouble: str | None = None
    overlapping: bool = False


def parse_tick(spec: str) -> Tick:
    """A tick from ``function=every@port``, on this machine's loopback and at ``/tick``.

    Raises:
        ValueError: the message shows the form.
    """
    match = _FORM.fullmatch(spec)
    if match is None or int(match[3]) > 65535:
        raise ValueError(f"{spec!r} is not a tick; write function=every@port, such as dispatch=5s@9002")
    try:
        every_ms = parse_ms(match[2])
    except ValueError as error:
        raise ValueError(f"the interval of {spec!r}: {error}") from None
    return Tick(match[1], every_ms, f"http://127.0.0.1:{match[3]}/tick")


def monotonic_ms() -> int:
    """The milliseconds of a clock that never goes backward."""
    return time.monotonic_ns() // 1_000_000


async def _sleep_ms(ms: int) -> None:
    await asyncio.sleep(ms / 1000)


def _log(event: str, tick: Tick, reason: str | None) -> None:
    if reason is None:
        log.info(event, target=tick.function)
    else:
        log.warning(event, target=tick.function, reason=reason)


class Ticker:
    """Ticks each of *targets* at once, and then on its grid.

    Args:
        post: sends one tick and returns the status of the response. Any exception counts as a failed tick;
            :class:`TickFailed` has a message for the log.
        now_ms: the clock of the grid.
        sleep_ms: waits on that clock.
        report: called when the state of a function changes: ``tick.away`` with the reason, ``tick.back``,
            ``tick.skipped``.
    """

    def __init__(
        self,
        targets: Sequence[Tick],
        post: Callable[[Tick], Awaitable[int]],
        *,
        now_ms: Callable[[], int] = monotonic_ms,
        sleep_ms: Callable[[int], Awaitable[None]] = _sleep_ms,
        report: Callable[[str, Tick, str | None], None] = _log,
    ) -> None:
        self._post = post
        self._report = report
        self._now_ms = now_ms
        self._sleep_ms = sleep_ms
        start = now_ms()
        self._targets = [_Target(tick, start) for tick in targets]

    async def run(self) -> None:
        """Tick until cancelled; POSTs under way are cancelled too."""
        try:
            while True:
                next_ms = self.step(self._now_ms())
                await self._sleep_ms(max(0, next_ms - self._now_ms()))
        finally:
            await self.close()

    def step(self, now_ms: int) -> int:
        """Start all ticks that are due at *now_ms*, without waiting for them; returns the time of the next tick."""
        for target in self._targets:
            if target.due_ms <= now_ms:
                self._fire(target)
                behind = (now_ms - target.due_ms) // target.tick.every_ms
                target.due_ms += (behind + 1) * target.tick.every_ms
        return min(target.due_ms for target in self._targets)

    async def close(self) -> None:
        """Cancel the POSTs under way."""
        running = [target.running for target in self._targets if target.running]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _fire(self, target: _Target) -> None:
        if target.running and not target.running.done():
            if not target.overlapping:
                target.overlapping = True
                self._report("tick.skipped", target.tick, "the tick before is still running")
            return
        target.overlapping = False
        target.running = asyncio.create_task(self._once(target))

    async def _once(self, target: _Target) -> None:
        try:
            status = await self._post(target.tick)
            trouble = None if 200 <= status < 300 else f"status {status}"
        except TickFailed as error:
            trouble = str(error)
        except Exception as error:  # noqa: BLE001 - whatever the reason, the next tick tries again
            trouble = type(error).__name__
        if trouble != target.trouble:
            self._report("tick.back" if trouble is None else "tick.away", target.tick, trouble)
        target.trouble = trouble


def main(arguments: Sequence[str]) -> int:
    """Ends with 0 at a signal, 64 if a tick is invalid, 78 if the secret is missing."""
    ticks, complaints = [], []
    for spec in arguments:
        try:
            ticks.append(parse_tick(spec))
        except ValueError as error:
            complaints.append(str(error))
    if not arguments:
        complaints.append("no ticks given; write at least one, such as dispatch=5s@9002")
    if complaints:
        sys.stderr.write("".join(f"ticker: {complaint}\n" for complaint in complaints))
        return os.EX_USAGE
    logs.configure("ticker")
    try:
        from shared.core.settings import Settings  # imported late, like the client below

        secret = Settings.load().tick_secret
    except PostroomError as error:
        sys.stderr.write(f"ticker: {error}\n")
        return os.EX_CONFIG
    if secret is None or not secret.get_secret_value():
        sys.stderr.write("ticker: POSTROOM_TICK_SECRET is not set; give the functions and the ticker the same one\n")
        return os.EX_CONFIG
    asyncio.run(_until_stopped(ticks, secret.get_secret_value()))
    return 0


async def _until_stopped(ticks: Sequence[Tick], secret: str) -> None:
    # Imported late: the template reader uses this module without them.
    from shared.runtime.http1_client import HttpClient
    from shared.runtime.http_client import NoAnswer, RequestNotSent

    client = HttpClient(answer_limit_s=ANSWER_TIMEOUT_S)

    async def post(tick: Tick) -> int:
        try:
            status = (await client.request("POST", tick.url, b"", {TICK_HEADER: secret})).status
        except (RequestNotSent, NoAnswer) as error:
            raise TickFailed(str(error)) from None
        return status

    running = asyncio.ensure_future(Ticker(ticks, post).run())
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    log.info("ticker.started", ticks=[f"{tick.function}/{tick.every_ms}ms" for tick in ticks])
    async with Watchdog(os.environ).kept():
        with contextlib.suppress(asyncio.CancelledError):
            await running
    await client.close()
    log.info("ticker.stopped")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
