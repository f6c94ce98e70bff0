"""The computer of the world: its clock, its disk, its network, and the processes that its supervisor starts again."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from emulator.proving.ledger import DOUBTS
from shared.db.engine.connection import open_connection, rows, transaction
from shared.roster.new_database import prepare_database
from tests.simulation.machine import seams
from tests.simulation.machine.disk import Disk
from tests.simulation.machine.litestream import Litestream
from tests.simulation.machine.loop import SimulatedLoop, context_of
from tests.simulation.machine.process import Descriptors, Process
from tests.simulation.machine.wires import Wires

FUNCTIONS = ("ingest", "dispatch", "deliver", "sweep", "recurrence", "api")


class Keeping(NamedTuple):
    """Begins, and stops."""

    begin: Callable[[apsw.Connection], None]
    stop: Callable[[apsw.Connection], None]


class Computer:
    """One machine with its disk.

    Attributes:
        current: the newest process of each function.
        started: how many processes each function has had.
        is_on: it has power, and all is up.
        losses: how often what was not durable was gone, with a disk or at a cut of the power: its events have no rows.
        power_cuts: those of them that no restore followed.
        keeping: what the world does to the database beside Postroom, but not while that prepares it.
    """

    def __init__(
        self, dice: Callable[[str], random.Random], tell: Callable[[str], None], *, is_replicated: bool
    ) -> None:
        self._dice = dice
        self._tell = tell
        self.db = Path("p.db")
        self.socket = Path("litestream.sock")
        self.loop = SimulatedLoop(dice("order"))
        self.disk = Disk(self.loop, dice("disk"))
        self.wires = Wires(self.loop, dice("wires"))
        self.descriptors = Descriptors(self.db)
        self.loop.on_step = self.descriptors.look
        self.clock = seams.WorldClock(self.loop, lambda: context_of(self.loop.outside).run(self.supervise))
        seams.put(self.clock, dice("chance"), tell)
        self.litestream: Litestream | None = None
        if is_replicated:
            self.litestream = Litestream(self.loop, self.disk, self.wires, self.db, self.socket)
        self.current: dict[str, Process] = {}
        self.started: Counter[str] = Counter()
        self.is_on = False
        self.losses = 0
        self.power_cuts = 0
        self.keeping: Keeping | None = None
        self._witness: apsw.Connection | None = None  # to open one costs 50 statements

    def boot(self, furnish: Callable[[apsw.Connection, int], None] = lambda _, __: None) -> None:
        """Start everything. *furnish* writes first rows before that."""
        if self.keeping is not None:
            conn = open_connection(self.db)
            self.keeping.stop(conn)
            conn.close()
        prepare_database(self.db)
        conn = open_connection(self.db)
        with transaction(conn):
            furnish(conn, self.clock.wall_ms())
            if self.keeping is not None:
                self.keeping.begin(conn)
        conn.close()
        self.is_on = True
        if self.litestream is not None:
            self.litestream.restart()
        for function in FUNCTIONS:
            self.start(function)

    async def shut_down(self) -> None:
        """Every process ends in good order."""
        self.is_on = False
        self._dismiss_witness()
        for process in list(self.current.values()):
            process.stop()
            await process.ended

    def start(self, function: str) -> None:
        self.started[function] += 1
        process = self.current[function] = Process(self, function, self.started[function])
        process.ended.add_done_callback(lambda _: self._on_end(process))

    def _on_end(self, process: Process) -> None:
        if process.error is not None:
            self._tell(f"{process.name} ended by {process.error!r}")
        if self.is_on and self.current[process.function] is process:
            self.loop.call_later(self._dice(f"restart {process.name}").uniform(0.05, 1), self._start_again, process)

    def _start_again(self, process: Process) -> None:
        if self.is_on and self.current[process.function] is process:
            self.start(process.function)

    def supervise(self) -> None:
        """Litestream's supervisor looks."""
        if self.litestream is None or not self.is_on:
            return
        self.litestream.supervise()
        if not self.litestream.is_running:
            self.loop.call_later(0.5, self.restart_litestream)

    def restart_litestream(self) -> None:
        if self.litestream is not None and self.is_on:
            self.litestream.restart()

    # What happens to it.

    def _switch_off(self) -> None:
        self.is_on = False
        self.losses += 1
        self._dismiss_witness()
        for lane in self.loop.lanes_of_processes():
            self.loop.kill(lane)
        if self.litestream is not None:
            self.litestream.end()

    async def lose_power(self) -> None:
        """Unless it is without power now."""
        if not self.is_on:
            return
        self._switch_off()
        self.power_cuts += 1
        self.disk.cut_power()
        self._remove("-shm")
        await asyncio.sleep(self._dice(f"power {self.loop.time()}").uniform(0.5, 10))
        self.boot()

    async def lose_disk(self) -> None:
        """As :meth:`lose_power`; another machine restores the replica."""
        assert self.litestream is not None
        if not self.is_on:
            return
        self._switch_off()
        self.disk.forget()
        self._remove("", "-wal", "-shm")
        await asyncio.sleep(self._dice(f"loss {self.loop.time()}").uniform(1, 60))
        self.db.write_bytes(self.litestream.replica())
        conn = open_connection(self.db)
        with transaction(conn):
            rows(conn, "DELETE FROM meta WHERE key = 'epoch'")
        conn.close()
        self.boot()

    def _remove(self, *suffixes: str) -> None:
        for suffix in suffixes:
            Path(f"{self.db}{suffix}").unlink(missing_ok=True)

    # What the witnesses ask.

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        if self._witness is None:
            self._witness = context_of(self.loop.outside).run(open_connection, self.db, readonly=True)
        try:
            return rows(self._witness, sql)
        finally:
            if not self.is_on:
                self._dismiss_witness()

    def _dismiss_witness(self) -> None:
        if self._witness is not None:
            self._witness.close()
            self._witness = None

    def counts(self) -> Counter[str]:
        """What happened here, for the totals of a run."""
        done = self.disk.counts
        return Counter({
            "doubts recorded": sum(count for _, count in self.query(DOUBTS)),
            "events": len(self.query("SELECT id FROM events")),
            "virtual seconds": int(self.loop.time()),
            "callbacks": self.loop.steps,
            "writes": done.writes,
            "writes that failed": done.failed + done.full,
            "deaths in a write": done.deaths,
            "writes lost": done.lost,
            "writes torn": done.torn,
            "processes": sum(self.started.values()),
        })  # fmt: skip
