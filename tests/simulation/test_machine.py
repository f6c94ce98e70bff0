"""The machine of the world: its time and its processes, and a disk that loses what was not synced, and nothing else."""

import asyncio
import random
from pathlib import Path

import apsw

from shared.db.engine.connection import open_connection, rows
from tests.forks import outcomes
from tests.simulation.machine.disk import Disk
from tests.simulation.machine.loop import Lane, SimulatedLoop, context_of

SEEDS = range(12)


class Machine:
    """A disk of its own, and a process that writes rows: the first on the disk, the others without a sync."""

    def __init__(self, folder: str, seed: int):
        self.loop = SimulatedLoop(random.Random(1))
        self.disk = Disk(self.loop, random.Random(seed))
        self.lane: Lane = self.loop.lane("writer", self.die)
        self.path = Path(folder) / f"world{seed}.db"
        self.failed: list[str] = []

    def write(self) -> None:
        conn = open_connection(self.path)
        rows(conn, "CREATE TABLE t (n INTEGER PRIMARY KEY, text TEXT) STRICT")
        rows(conn, "INSERT INTO t VALUES (0, 'on the disk')")
        rows(conn, "PRAGMA synchronous = NORMAL")
        for number in range(1, 30):
            try:
                rows(conn, "INSERT INTO t VALUES (?, ?)", (number, "x" * 3000))
            except apsw.Error as error:
                self.failed.append(str(error))

    def run(self) -> None:
        context_of(self.lane).run(self.write)

    def die(self) -> None:
        self.disk.bury(self.lane)

    def found(self) -> tuple[list[int], str]:
        Path(f"{self.path}-shm").unlink(missing_ok=True)
        conn = open_connection(self.path)
        return [number for (number,) in rows(conn, "SELECT n FROM t ORDER BY n")], rows(conn, "PRAGMA integrity_check")[
            0
        ][0]


def cut_power(_, folder):
    found = []
    for seed in SEEDS:
        machine = Machine(folder, seed)
        machine.run()
        machine.loop.kill(machine.lane)
        machine.disk.cut_power()
        found.append((*machine.found(), machine.disk.counts.lost + machine.disk.counts.torn))
    return found


def die_in_a_write(_, folder):
    machine = Machine(folder, 100)
    machine.disk.dies_in[machine.lane] = 40
    machine.run()
    machine.loop.kill(machine.lane)
    return machine.failed, machine.found(), machine.disk.counts.deaths


def fill_up(_, folder):
    machine = Machine(folder, 200)
    machine.disk.is_full = True
    try:
        machine.run()
    except apsw.FullError:
        machine.disk.is_full = False
        machine.run()
        return "full", machine.found()
    return "", machine.found()


def test_a_cut_of_the_power_keeps_what_was_synced_and_a_beginning_of_the_rest(db, tmp_path):
    (found,) = outcomes(db, cut_power, [(str(tmp_path),)])
    for numbers, integrity, harmed in found:
        assert integrity == "ok"
        assert numbers == list(range(len(numbers)))
        assert len(numbers) >= 1
        assert harmed
    assert min(len(numbers) for numbers, *_ in found) < 30
    assert len({len(numbers) for numbers, *_ in found}) > 1, "chance chooses"


def test_a_process_that_died_in_a_write_writes_nothing_more_and_locks_nothing(db, tmp_path):
    ((failed, (numbers, integrity), deaths),) = outcomes(db, die_in_a_write, [(str(tmp_path),)])
    assert (integrity, deaths) == ("ok", 1)
    assert numbers == list(range(len(numbers)))
    assert 1 <= len(numbers) == 30 - len(failed)
    assert failed


def test_a_full_disk_refuses_and_goes_on_when_there_is_room(db, tmp_path):
    ((said, (numbers, integrity)),) = outcomes(db, fill_up, [(str(tmp_path),)])
    assert (said, numbers, integrity) == ("full", list(range(30)), "ok")


def story(seed: int) -> list[str]:
    """What two processes and the world do: one is killed while it holds something, one stands still for a minute."""
    loop, told = SimulatedLoop(random.Random(seed)), []
    one, two = (loop.lane(name, lambda: told.append("buried")) for name in ("one", "two"))

    async def count(name: str) -> None:
        try:
            for number in range(4):
                told.append(f"{name}{number} at {loop.time():g}")
                await asyncio.sleep(1)
        finally:
            told.append(f"{name} ends")

    async def live() -> None:
        loop.begin(one, count("a"))
        loop.begin(one, count("b"))
        loop.begin(two, count("c"))
        await asyncio.sleep(1.5)
        loop.kill(one)
        loop.sleep_lane(two, 60)
        assert await asyncio.to_thread(lambda: 7) == 7
        await asyncio.sleep(100)

    loop.run_until_complete(live())
    return told


def stories(_, seeds):
    return [story(seed) for seed in seeds]


def test_time_is_virtual_and_the_dead_run_nothing_more(db):
    ((told,),) = outcomes(db, stories, [([1],)])
    assert "a1 at 1" in told
    assert not any(each.startswith(("a2", "b2")) or each in ("a ends", "b ends") for each in told)
    assert [each for each in told if each.startswith("c")] == [
        "c0 at 0",
        "c1 at 1",
        "c2 at 61.5",
        "c3 at 62.5",
        "c ends",
    ]
    assert told.count("buried") == 1


def test_one_process_keeps_its_order_and_the_seed_chooses_between_processes(db):
    (told, again) = outcomes(db, stories, [(range(20),), (range(20),)])
    assert told == again
    assert {tuple(each for each in one if each[0] in "ab" and each[1] == "0") for one in told} == {
        ("a0 at 0", "b0 at 0")
    }
    assert len({tuple(one) for one in told}) > 1
