"""The moves of the clock over real rows; a gateway in the place of the functions does what their ticks would."""

import asyncio
import io
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import apsw
import pytest

from emulator.base.clock_page import ClockPage
from emulator.base.console import Console
from emulator.base.errors import InvalidInput, TimedOut
from emulator.base.state import StateFolder
from emulator.system.clock_moves import FASTEST, ClockMoves
from emulator.system.components import Components
from infra.template.specs import TickSpec
from shared.core.http_head import TICK_HEADER
from shared.core.time import clock
from shared.db.access import approvals
from shared.db.access.approvals import NewApproval
from shared.db.engine.connection import open_connection, transaction
from tests.conftest import close_gate
from tests.support import NOW, put

HOUR = 3_600_000
DAY = 24 * HOUR
TICKS = [TickSpec(name, 1000, "/tick", 1) for name in ("dispatch", "deliver", "recurrence", "sweep")]


class Ticked:
    """A gateway that notes each tick with the time of the clock; *work* is what ``dispatch`` does."""

    def __init__(self, page: ClockPage, work: Callable[[int], None]) -> None:
        self.page, self.work, self.at = page, work, dict[str, list[int]]()

    async def post(self, url: str, headers: dict[str, str], *, limit_s: float) -> int:
        name = TICKS[int(url.split(":")[2].partition("/")[0])].function
        assert headers == {TICK_HEADER: "secret"}
        self.at.setdefault(name, []).append(self.page.now_ms())
        if name == "dispatch":
            self.work(self.page.now_ms())
        return 200


class World:
    """A clock that stands still at NOW, and the rows of *conn*."""

    def __init__(self, conn: apsw.Connection, state: StateFolder, page: ClockPage) -> None:
        self.conn, self.page, self.done = conn, page, list[tuple[int, int]]()
        self.worked = asyncio.Event()
        self.gateway = Ticked(page, self._work)
        components = SimpleNamespace(
            ticks=TICKS,
            tick_secret="secret",
            gateway=self.gateway,
            functions={tick.function: SimpleNamespace(port=number) for number, tick in enumerate(TICKS)},
            state=state,
        )
        self.moves = ClockMoves(cast(Components, components), page, Console("json", io.StringIO()))

    def _work(self, now_ms: int) -> None:
        due = "SELECT id, process_after FROM messages WHERE status = 'pending' AND process_after <= ?"
        for id_, due_ms in self.conn.execute(due, (now_ms,)).fetchall():
            self.done.append((due_ms - NOW, now_ms - NOW))
            self.worked.set()
            self.conn.execute("UPDATE messages SET status = 'completed' WHERE id = ?", (id_,))


@pytest.fixture
def world(fresh_database: Path, tmp_path: Path) -> Iterator[World]:
    state = StateFolder(tmp_path)
    shutil.copy(fresh_database, state.database)
    page = ClockPage(state.clock)
    page.set_to(NOW)
    page.freeze()
    page.set_to(NOW)
    conn = open_connection(state.database)
    yield World(conn, state, page)
    conn.close()
    close_gate(state.database)


def test_the_clock_stops_where_something_is_due_and_then_at_its_end(world: World) -> None:
    for due_ms in (5 * HOUR, 2 * HOUR, 30 * HOUR, 2 * HOUR):
        put(world.conn, process_after=NOW + due_ms)

    stops = asyncio.run(world.moves.jump(NOW + DAY, is_leap=False))

    assert stops == 2
    assert world.done == [(2 * HOUR, 2 * HOUR), (2 * HOUR, 2 * HOUR), (5 * HOUR, 5 * HOUR)]
    assert world.page.now_ms() == NOW + DAY
    swept = world.gateway.at["sweep"]
    assert swept == sorted(swept)
    assert swept[-1] == NOW + DAY
    assert {at - NOW for at in swept} >= {6 * HOUR, 12 * HOUR, 18 * HOUR}


def test_sweep_has_its_tick_where_a_deadline_is_over(world: World) -> None:
    with transaction(world.conn):
        asked = NewApproval("tool", {}, subject="x", title="May it?", options=("Yes", "No"))
        approvals.request(world.conn, asked, expires_at=NOW + HOUR, now_ms=NOW)

    asyncio.run(world.moves.jump(NOW + 2 * HOUR, is_leap=False))

    assert NOW + HOUR in world.gateway.at["sweep"]


def test_a_leap_does_late_what_was_due_on_the_way(world: World) -> None:
    put(world.conn, process_after=NOW + HOUR)

    asyncio.run(world.moves.jump(NOW + DAY, is_leap=True))

    assert world.done == [(HOUR, DAY)]
    assert set(world.gateway.at) == {tick.function for tick in TICKS}


def test_many_years_are_no_longer_a_way_than_a_week(world: World) -> None:
    asyncio.run(world.moves.jump(NOW + 3650 * DAY, is_leap=False))

    assert len(world.gateway.at["sweep"]) < 40


def test_work_that_does_not_end_is_told_and_the_clock_goes_on_from_there(world: World) -> None:
    world.gateway.work = lambda _: None
    put(world.conn, process_after=NOW + HOUR)

    with pytest.raises(TimedOut, match=r"what is due at this instant is not done after 0\.05 s: `.*queue"):
        asyncio.run(world.moves.jump(NOW + DAY, is_leap=False, limit_s=0.05))

    assert world.page.now_ms() == NOW + HOUR


def test_a_clock_that_stood_still_does_so_after_a_jump_that_was_given_up(world: World) -> None:
    """It runs while the work at an instant takes long."""
    world.gateway.work = lambda _: None
    put(world.conn, process_after=NOW + HOUR)

    async def give_up() -> None:
        jump = asyncio.create_task(world.moves.jump(NOW + DAY, is_leap=False))
        async with asyncio.timeout(60):
            while world.page.facts.is_frozen:  # noqa: ASYNC110 - a clock sets no events
                await asyncio.sleep(0.01)
        jump.cancel()
        await asyncio.gather(jump, return_exceptions=True)

    asyncio.run(give_up())
    assert world.page.facts.is_frozen
    assert NOW + HOUR <= world.page.now_ms() < NOW + 2 * HOUR


@pytest.mark.parametrize("to_ms", [-1, 10**18])
def test_an_instant_that_no_calendar_has_is_refused(world: World, to_ms: int) -> None:
    with pytest.raises(InvalidInput, match="choose an instant from 2000 to 2199"):
        asyncio.run(world.moves.jump(to_ms, is_leap=True))
    assert world.page.now_ms() == NOW


def test_time_never_goes_back_for_rows(world: World) -> None:
    asyncio.run(world.moves.jump(NOW - DAY, is_leap=False))
    assert world.page.now_ms() == NOW - DAY, "nothing is there yet"
    put(world.conn)
    with pytest.raises(InvalidInput, match=r"the newest row is 2 d later than that"):
        asyncio.run(world.moves.jump(NOW - 2 * DAY, is_leap=True))
    if clock.machine_ms() < NOW:
        with pytest.raises(InvalidInput, match="rows are never of the future"):
            asyncio.run(world.moves.reset(is_forced=False))
    asyncio.run(world.moves.reset(is_forced=True))
    assert world.page.facts.sentence is None


def test_a_faster_clock_goes_through_the_same_instants_and_ends_with_its_emulator(world: World) -> None:
    for hour in range(1, 200):
        put(world.conn, process_after=NOW + hour * HOUR)

    async def run() -> None:
        await world.moves.run_at(FASTEST)
        await world.worked.wait()
        await world.moves.close()

    asyncio.run(run())

    assert [due_ms for due_ms, _ in world.done] == [hour * HOUR for hour in range(1, len(world.done) + 1)]
    assert all(due_ms <= at_ms < due_ms + HOUR for due_ms, at_ms in world.done)
    assert world.page.facts.speed == 1
