"""Looks at a world while it lives and at its end, and takes its fingerprint."""

import hashlib
from collections.abc import Callable

from emulator.proving import row_promises
from tests.simulation import ledger, row_checks
from tests.simulation.machine.computer import Computer
from tests.simulation.row_checks import WaitWatch

LEASE_MS = 30_000
_SHOWS_S = 180.0  # a lease, and two sweeps
_RESCUES = """
    SELECT id, message_id FROM events
     WHERE type IN ('message_retry', 'message_dead') AND data ->> '$.failure' = 'process_gone'
"""
_VOLATILE = {("meta", "dispatch_host")}  # names the process of this run


class Audit:
    """What holds at every moment, looked at now and then. *sweeps*: how many did all their work so far."""

    def __init__(self, computer: Computer, fail: Callable[[list[str]], None]) -> None:
        self._computer = computer
        self._fail = fail
        self.sweeps = 0
        self._calm_at_s = 0.0
        self._started = 0
        self._last_event = 0
        self._far: dict[str, int] = {}  # what waits for a sweep, and the sweeps when that was first seen
        self.forget()

    def look(self) -> None:
        if self._losses != self._computer.losses:
            self.forget()
        query, now_ms = self._computer.query, self._computer.clock.wall_ms()
        late = self._waits.look(query, now_ms=now_ms, steady=self.sweeps)
        self._far = {each: self._far.get(each, self.sweeps) for each in ledger.waits(query, now_ms)}
        late += [each for each, sweeps in self._far.items() if self.sweeps >= sweeps + 2]
        self._fail([*late, *row_promises.attempts(query), *row_checks.losses(query), *self._rescued()])

    def forget(self) -> None:
        """The clock was set, or what a sweep has mended is lost: what waits too long now has two more sweeps."""
        self._losses = self._computer.losses
        self._waits = WaitWatch(lease_ms=LEASE_MS, patience=1)
        self._far = {}

    def expect_start(self) -> None:
        """A process follows another one that ends in good order: nothing comes of that."""
        self._started += 1

    def disturb(self, seconds: float) -> None:
        """Something is wrong with the computer for so long; what comes of it shows within the next minutes."""
        self._calm_at_s = max(self._calm_at_s, self._computer.loop.time() + seconds + _SHOWS_S)

    def _rescued(self) -> list[str]:
        """Turns that were given up as lost while nothing was wrong with their process."""
        started = sum(self._computer.started.values())
        if self._started != started:  # so is it at the first look, before which a process may have died as well
            self.disturb(0)
        self._started = started
        found = self._computer.query(f"{_RESCUES} AND id > {self._last_event} ORDER BY id")
        self._last_event = found[-1][0] if found else self._last_event
        if self._computer.loop.time() <= self._calm_at_s:
            return []
        return [f"the turn of {message} was given up as lost, and nothing had happened" for _, message in found]


def fingerprint(computer: Computer) -> str:
    """Of the order of all callbacks, and of all rows."""
    digest = hashlib.blake2b(computer.loop.order.digest(), digest_size=16)
    tables = computer.query(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY 1"
    )
    for (table,) in tables:
        for row in computer.query(f"SELECT * FROM {table} ORDER BY 1, 2"):
            if (table, row[0]) not in _VOLATILE:
                digest.update(repr((table, row)).encode())
    return digest.hexdigest()
