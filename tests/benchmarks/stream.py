"""Section 2, server-sent events: many readers, and each gets every event."""

import asyncio
import re
import time
from collections.abc import Iterator

import uvloop

from shared.db.engine.connection import open_connection, transaction
from shared.db.queue import events
from shared.runtime.kick import Kicker
from tests.benchmarks.harness.crew import crew
from tests.benchmarks.harness.measure import Line, Scale, Spread, at_most, must_be, percentile
from tests.benchmarks.harness.system import System

_READERS = 200
_PER_SECOND = 500
_AT_ONCE = 5  # events in one commit
_SENT_AT = re.compile(rb'"due": ?(\d+)')
_LONGEST_WAIT_S = 60.0


def readers(scale: Scale) -> Iterator[Line]:
    """200 readers, 500 events a second. The readers are another process on the same two cores."""
    with System(scale.place("stream")) as system, crew(2) as workers:
        system.start("api")
        lags, missed = [], 0
        for _ in range(scale.rounds if scale.is_quick else 3):
            count = int(_PER_SECOND * scale.few(4, 1))
            reading, _ = workers.run(
                [(_read, (system.port("api"), _READERS, count)), (_emit, (str(system.db), str(system.run_dir), count))]
            )
            missed += _READERS * count - len(reading)
            lags.append(percentile(reading, 0.99))
    yield must_be(
        f"SSE, {_READERS} readers, {_PER_SECOND} events/s: missed",
        str(missed),
        is_met=missed == 0,
        bar="0",
        reason=f"they had not arrived {_LONGEST_WAIT_S:.0f} s after the last event was written",
    )
    yield at_most(
        "the same, lag p99",
        Spread.of(lags),
        45,
        "ms",
        reason="api writes each event to each reader: 100 000 a second through one interpreter",
    )


def _emit(start: float, db: str, run_dir: str, count: int) -> None:
    """Write the events at an even pace, once the readers are connected."""
    from pathlib import Path

    conn = open_connection(Path(db))
    kicker = Kicker(Path(run_dir))
    due = start + 1.5
    for _ in range(0, count, _AT_ONCE):
        time.sleep(max(0.0, due - time.perf_counter()))
        due += _AT_ONCE / _PER_SECOND
        with transaction(conn):
            for _ in range(_AT_ONCE):
                events.append(conn, "benchmark", now_ms=1, data={"due": int(time.perf_counter() * 1e6)})
        kicker.kick("api")
    kicker.close()
    conn.close()


def _read(start: float, port: int, readers: int, count: int) -> list[float]:
    """Milliseconds from an event to its arrival, of all readers together."""

    async def run() -> list[float]:
        loop = asyncio.get_running_loop()
        made = [(await loop.create_connection(_Reader, "127.0.0.1", port))[1] for _ in range(readers)]
        limit = count / _PER_SECOND + _LONGEST_WAIT_S
        await asyncio.wait([asyncio.create_task(each.receive(count)) for each in made], timeout=limit)
        for each in made:
            each.close()
        return [lag for each in made for lag in each.lags]

    return uvloop.run(run())


class _Reader(asyncio.Protocol):
    """Finds the instants in the stream."""

    def __init__(self) -> None:
        self.lags: list[float] = []
        self._rest = b""
        self._expected = 0
        self._all = asyncio.Event()
        self._transport: asyncio.Transport | None = None

    async def receive(self, count: int) -> None:
        self._expected = count
        await self._all.wait()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # of TCP
        transport.write(b"GET /api/events/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter() * 1000
        whole, _, self._rest = (self._rest + data).rpartition(b"\n\n")
        self.lags += [now - int(found) / 1000 for found in _SENT_AT.findall(whole)]
        if self._expected and len(self.lags) >= self._expected:
            self._all.set()


LINES = (readers,)
