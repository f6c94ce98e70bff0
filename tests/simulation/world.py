"""One world from one seed: Postroom's functions, people who write, and what goes wrong. ``running`` runs it."""

import asyncio
import os
import random
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import apsw

from shared.db.engine.connection import open_connection, rows
from tests.simulation import ledger, thinking
from tests.simulation.agents.thinkers import Thinkers
from tests.simulation.breaking import OUTSIDE, Breaking
from tests.simulation.faults import Fault, frame, plan, plan_of_models
from tests.simulation.judging import LEASE_MS, Audit, fingerprint
from tests.simulation.kinds import parts_of
from tests.simulation.machine.computer import Computer, Keeping
from tests.simulation.machine.process import Answer, Process, Reset
from tests.simulation.machine.working import OneWorks
from tests.simulation.outcome import Outcome
from tests.simulation.parts import WorldPart
from tests.simulation.people.writing import People
from tests.simulation.pruning import Pruning, begin_keeping, show_pruned, stop_keeping

TICK = {"x-postroom-tick": "tick-secret"}
_HEALS_S = 14_400.0  # of virtual time, in which all work must end
_ASKS_S = 300.0  # after that: in which deliver must see that a platform works again
_LOOKS_S = 15.0
_FOR_EVER_MS = str(10 * 365 * 86_400_000)  # the kernel dates files, by a clock that is not the world's


class World:
    """See the module. *ticks_s*: how often which function gets its tick."""

    ticks_s: ClassVar = {"deliver": 1.0, "dispatch": 5.0, "sweep": 60.0, "recurrence": 60.0}

    def __init__(self, seed: int, folder: Path, faults: Sequence[Fault] | None = None) -> None:
        self._seed = seed
        shape = self.dice("shape")
        self.span_s, is_replicated = self._shape(shape)
        os.chdir(folder)  # and all paths are relative to it, so that no row and no line names it
        self.outcome = Outcome(seed)
        self.computer = Computer(self.dice, self.tell, is_replicated=is_replicated)
        self.outcome.faults = self._plan(is_replicated=is_replicated) if faults is None else list(faults)
        self._parts = self._parts_of(shape)
        if faults is None:
            self.outcome.faults += [each for part in self._parts for each in part.faults()]
            self.outcome.faults.sort(key=lambda fault: fault.at_s)
        self._hosts = {address: host for part in self._parts for address, host in part.hosts().items()}
        self._platforms = [part.platform for part in self._parts if isinstance(part, People)]
        self._audit = Audit(self.computer, self._fail)
        thinkers = next((part for part in self._parts if isinstance(part, Thinkers)), None)
        if faults is None and thinkers is not None and thinkers.is_moody:
            more = plan_of_models(self.dice("faults of models"), self.span_s)
            self.outcome.faults = sorted([*self.outcome.faults, *more], key=lambda fault: fault.at_s)
        models = thinkers.models if thinkers is not None else None
        self._breaking = Breaking(
            self, self.computer, self._hosts, self._platforms, models, self.outcome.faults, self._audit
        )
        if any(isinstance(part, Pruning) for part in self._parts):
            self.computer.keeping = Keeping(begin_keeping, stop_keeping)
        self.computer.loop.set_exception_handler(self._note_unread)
        self._one_works = OneWorks(self._fail)
        self.computer.loop.on_task = self._one_works.look
        self._writing: list[asyncio.Task[None]] = []
        self._put_settings()

    def _shape(self, dice: random.Random) -> tuple[float, bool]:
        """For how many seconds people write, and whether a Litestream runs."""
        return frame(dice)

    def _plan(self, *, is_replicated: bool) -> list[Fault]:
        return plan(self.dice("faults"), self.span_s, is_replicated=is_replicated)

    def _parts_of(self, dice: random.Random) -> list[WorldPart]:
        return parts_of(self, self._seed, dice)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """See ``Surroundings``."""
        if self.computer.keeping is None:
            return self.computer.query(sql)
        with closing(open_connection(self.computer.db, readonly=True)) as conn:
            show_pruned(conn)
            return rows(conn, sql)

    @property
    def is_clock_steady(self) -> bool:
        """See ``Surroundings``."""
        return all(fault.kind != "clock" for fault in self.outcome.faults)

    @property
    def is_calm(self) -> bool:
        """See ``Surroundings``."""
        return all(fault.kind in OUTSIDE for fault in self.outcome.faults)

    @property
    def are_ids_unique(self) -> bool:
        """See ``Surroundings``."""
        computer = self.computer
        return computer.losses == 0 or (computer.power_cuts == 0 and self.is_clock_steady)

    def note_thinking(self, account: str, chat: str) -> None:
        """See ``Surroundings``."""
        if self.computer.is_on and thinking.is_over(self.query, account, chat, self.wall_ms()):
            self._fail([f"{account} goes on typing in {chat}, and no turn is there"])

    def dice(self, name: str) -> random.Random:
        """See ``Surroundings``."""
        return random.Random(f"{self._seed} {name}")

    def tell(self, line: str) -> None:
        """See ``Surroundings``."""
        self.outcome.story.append(f"{self.computer.loop.time():10.3f}  {line}")

    def now_s(self) -> float:
        """See ``Surroundings``."""
        return self.computer.loop.time()

    def wall_ms(self) -> int:
        """See ``Surroundings``."""
        return self.computer.clock.wall_ms()

    def kill(self, function: str) -> None:
        """See ``Surroundings``."""
        self.computer.current[function].kill()

    async def ask(
        self,
        function: str,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes,
        on_piece: Callable[[bytes], None] | None = None,
    ) -> Answer:
        """See ``Surroundings``."""
        return await self.computer.current[function].ask(method, path, headers, body, on_piece)

    def _put_settings(self) -> None:
        """Of all processes. What the machine of the tests has set counts for nothing."""
        for name in [name for name in os.environ if name.startswith(("POSTROOM_", "TELEGRAM_", "DISCORD_"))]:
            del os.environ[name]
        computer = self.computer
        os.environ |= {
            "POSTROOM_DB": str(computer.db),
            "POSTROOM_RUN_DIR": "run",
            "POSTROOM_AGENTS_DIR": "agents",
            "POSTROOM_TICK_SECRET": TICK["x-postroom-tick"],
            "POSTROOM_NEW_CHATS": "wire",
            "POSTROOM_LEASE_MS": str(LEASE_MS),
            "POSTROOM_LEASH": "off",
            "POSTROOM_RETENTION_MS": _FOR_EVER_MS,
            "POSTROOM_FILE_RETENTION_MS": _FOR_EVER_MS,
        }
        if computer.litestream is not None:
            os.environ |= {"POSTROOM_DURABILITY": "replicated", "POSTROOM_LITESTREAM_SOCKET": str(computer.socket)}
        for part in self._parts:
            os.environ |= part.settings()

    async def live(self) -> None:
        """All of it: people write, things break, all heals, and everything must end."""
        self.computer.wires.hosts |= self._hosts
        self.computer.boot(self._furnish)
        self._writing = [asyncio.create_task(each) for part in self._parts for each in part.work()]
        work = [*self._writing, asyncio.create_task(self._breaking.work())]
        for function, every_s in self.ticks_s.items():
            asyncio.create_task(self._tick(function, every_s))  # noqa: RUF006 - it ends with the world
        for lasting in (self._look(), *(each for part in self._parts for each in part.lasting())):
            asyncio.create_task(lasting)  # noqa: RUF006
        done, late = await asyncio.wait(work, timeout=self.span_s + _HEALS_S)
        for task in done:
            if not task.cancelled():
                task.result()
        self.outcome.failures += [f"never accepted: {len(late)} people still write"] if late else []
        await self._settle()
        await self.computer.shut_down()
        self._judge()

    def _furnish(self, conn: apsw.Connection, now_ms: int) -> None:
        """The first agent may run some turns at once; each part writes what is its own."""
        rows(conn, "UPDATE agents SET concurrency = :most", {"most": self.dice("concurrency").choice([1, 3, 8])})
        for part in self._parts:
            part.furnish(conn, now_ms)

    async def _tick(self, function: str, every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            process = self.computer.current[function]
            asyncio.create_task(self._ask_tick(process))  # noqa: RUF006

    async def _ask_tick(self, process: Process) -> None:
        try:
            answer = await process.ask("POST", "/tick", TICK)
        except Reset:
            return
        self.outcome.counts[f"tick {answer.status}"] += 1
        self._audit.sweeps += process.function == "sweep" and answer.status == 200

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOKS_S)
            if self.computer.is_on:
                self._audit.look()
                self.computer.supervise()

    async def _settle(self) -> None:
        """Nothing goes wrong any more: all work must end. Where something has failed, that is told at once."""
        self.tell("all is well from here on")
        until_s = self.now_s() + _HEALS_S
        while self.now_s() < until_s:
            await asyncio.sleep(5)
            if self.outcome.failures or not self.computer.query(ledger.OPEN):
                break
        until_s = self.now_s() + _ASKS_S
        while self.now_s() < until_s:
            is_heard = not any(part.is_behind(self.query) for part in self._parts)
            if self.outcome.failures or (is_heard and not self.computer.query(ledger.OUTAGES)):
                break
            await asyncio.sleep(5)

    def _note_unread(self, _: asyncio.AbstractEventLoop, facts: dict[str, Any]) -> None:
        """The error of a task or future that nobody reads is in no log. A callback that fails is told of alone."""
        whose = facts.get("task") or facts.get("future")
        name = getattr(whose.get_coro(), "__qualname__", "") if isinstance(whose, asyncio.Task) else "a future"
        words = f"{facts['message']}: {facts.get('exception')!r} of {name}"
        self.tell(words) if whose is None else self._fail([words])

    def _fail(self, problems: list[str]) -> None:
        """The first problem ends what people do and what goes wrong: more of it would say no more."""
        self.outcome.failures += [f"{self.now_s():.3f}: {each}" for each in problems]
        if problems:
            self._breaking.is_over = True
            for task in self._writing:
                task.cancel()

    def _judge(self) -> None:
        query = self.query
        lines = {text: line for part in self._parts for text, line in part.lines().items()}
        prunes = self.computer.keeping is not None
        found = ledger.check(query, self._platforms, lines, is_clock_steady=self.is_clock_steady, prunes=prunes)
        self._fail(found)
        for part in self._parts:
            self._fail(part.problems(query, is_history_whole=self.computer.losses == 0))
            self.outcome.counts += part.counts(query)
        self.outcome.counts += self.computer.counts() + self._breaking.counts + self._one_works.counts()
        self.outcome.hash = fingerprint(self.computer)
