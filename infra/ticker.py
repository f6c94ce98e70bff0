"""Posts a tick to each function on a fixed grid: ``python -m infra.ticker dispatch=5s@9002 deliver=1s@9003``.

A tick is only a reminder, the rows say what is due. So a late one is not made up for, one that finds its predecessor
still running is left out, and a function that is away costs one line when it goes and one when it is back. The emulator
runs the same class in its own loop.
"""

import asyncio
import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from shared.core import logs
from shared.core.durations import parse_ms
from shared.core.errors import PostroomError
from shared.core.ticks import TICK_HEADER

ANSWER_TIMEOUT_S = 10.0

_FORM = re.compile(r"([a-z][a-z0-9_]*)=([0-9a-z]+)@([1-9][0-9]{0,4})")

log = logs.get()


class TickFailed(Exception):
    """The function was not reached, or did not answer; the message says why."""


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
class TickCounts:
    """What became of one function's ticks.

    Attributes:
        sent: answered with 2xx.
        failed: no answer, or another status.
        skipped: left out, because the one before was still running.
        late: grid points that passed while this process could not run.
    """

    sent: int = 0
    failed: int = 0
    skipped: int = 0
    late: int = 0


@dataclass(slots=True)
class _Target:
    """One function: its place on the grid, the post that is under way, and how it fared last."""

    tick: Tick
    due_ms: int
    counts: TickCounts = field(default_factory=TickCounts)
    running: asyncio.Task[None] | None = None
    trouble: str | None = None
    overlapping: bool = False


def parse_tick(spec: str) -> Tick:
    """A tick from ``function=every@port``, on this machine's loopback and at ``/tick``.

    Raises:
        ValueError: a sentence that shows the form.
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
    """Milliseconds that only go forward."""
    return time.monotonic_ns() // 1_000_000


async def _sleep_ms(ms: int) -> None:
    await asyncio.sleep(ms / 1000)


def _log(event: str, tick: Tick, reason: str | None) -> None:
    if reason is None:
        log.info(event, target=tick.function)
    else:
        log.warning(event, target=tick.function, reason=reason)


class Ticker:
    """Ticks *targets* from the moment it runs: at once, then on each one's grid.

    Args:
        post: carries out one tick and returns the answer's status; what it raises means "away", best said by
            :class:`TickFailed`.
        now_ms: the clock of the grid.
        sleep_ms: waits on that clock.
        report: told when a function's fortune changes: ``tick.away`` with the reason, ``tick.back``, ``tick.skipped``.
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

    @property
    def counts(self) -> dict[str, TickCounts]:
        """By function."""
        return {target.tick.function: target.counts for target in self._targets}

    async def run(self) -> None:
        """Tick until cancelled; posts under way are cancelled with it."""
        try:
            while True:
                next_ms = self.step(self._now_ms())
                await self._sleep_ms(max(0, next_ms - self._now_ms()))
        finally:
            await self.close()

    def step(self, now_ms: int) -> int:
        """Start whatever is due at *now_ms*, without waiting for it; returns when something is due next."""
        for target in self._targets:
            if target.due_ms <= now_ms:
                self._fire(target)
                behind = (now_ms - target.due_ms) // target.tick.every_ms
                target.counts.late += behind
                target.due_ms += (behind + 1) * target.tick.every_ms
        return min(target.due_ms for target in self._targets)

    async def close(self) -> None:
        """Give up the posts that are under way."""
        running = [target.running for target in self._targets if target.running]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _fire(self, target: _Target) -> None:
        if target.running and not target.running.done():
            target.counts.skipped += 1
            if not target.overlapping:
                target.overlapping = True
                self._report("tick.skipped", target.tick, "the one before is still running")
            return
        target.overlapping = False
        target.running = asyncio.create_task(self._once(target))

    async def _once(self, target: _Target) -> None:
        try:
            status = await self._post(target.tick)
            trouble = None if 200 <= status < 300 else f"status {status}"
        except TickFailed as error:
            trouble = str(error)
        except Exception as error:  # noqa: BLE001 - whatever kept the tick from arriving: the next one tries again
            trouble = type(error).__name__
        if trouble is None:
            target.counts.sent += 1
        else:
            target.counts.failed += 1
        if trouble != target.trouble:
            self._report("tick.back" if trouble is None else "tick.away", target.tick, trouble)
        target.trouble = trouble


def main(arguments: Sequence[str]) -> int:
    """Exit code 0 when stopped by a signal, 64 when a tick can't be read, 78 when the secret is missing."""
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
        from shared.core.settings import Settings  # not above, like the client below

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
    from shared.runtime.http_client import (  # not above: who only reads the template has no use for it
        HttpClient,
        NoAnswer,
        RequestNotSent,
    )

    client = HttpClient(answer_limit_s=ANSWER_TIMEOUT_S)

    async def post(tick: Tick) -> int:
        try:
            status, _ = await client.request("POST", tick.url, b"", {TICK_HEADER: secret})
        except (RequestNotSent, NoAnswer) as error:
            raise TickFailed(str(error)) from None
        return status

    running = asyncio.ensure_future(Ticker(ticks, post).run())
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    log.info("ticker.started", ticks=[f"{tick.function}/{tick.every_ms}ms" for tick in ticks])
    with contextlib.suppress(asyncio.CancelledError):
        await running
    await client.close()
    log.info("ticker.stopped")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
