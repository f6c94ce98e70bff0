"""Local files that Litestream needs no more go; it replicates, compacts and restarts all the same."""

import asyncio
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from infra.litestream import local_files, local_state
from infra.litestream.local_files import FilePace, remove_sent, sent
from shared.db.engine import meta
from shared.db.engine.connection import open_connection, rows, transaction
from shared.db.replica.litestream_program import program, restore_command
from shared.db.replica.sync import sync
from shared.roster.new_database import prepare_database
from tests.infra.litestream.supervised import Replicating, Scripted
from tests.infra.processes import Process, until

NOW_S = 1_800_000_000.0
OLD_S = NOW_S - 61
LATER_S = 3600.0
LATEST = 30
NEWEST_KEPT = 10


def name_of(position: int) -> str:
    return f"{position:016x}-{position:016x}.ltx"


def positions(folder: Path) -> list[int]:
    """The last positions of the files in a folder of Litestream's."""
    return sorted(int(path.stem[17:], 16) for path in folder.glob("*.ltx"))


def fill(folder: Path, *, written_at_s: float = OLD_S, first: int = 1, latest: int = LATEST) -> Path:
    """Files of the positions *first* to *latest*, all as old."""
    folder.mkdir(parents=True, exist_ok=True)
    for position in range(first, latest + 1):
        (folder / name_of(position)).touch()
        os.utime(folder / name_of(position), (written_at_s, written_at_s))
    return folder


def always() -> bool:
    return True


def test_old_uploaded_files_are_not_needed_but_for_the_newest(tmp_path: Path) -> None:
    names = sent(fill(tmp_path / "0"), LATEST, NOW_S)
    assert names == [name_of(position) for position in range(1, LATEST - NEWEST_KEPT + 1)]


def test_files_after_the_position_in_the_bucket_are_needed(tmp_path: Path) -> None:
    assert sent(fill(tmp_path / "0"), 3, NOW_S) == [name_of(1), name_of(2), name_of(3)]
    assert sent(tmp_path / "0", 0, NOW_S) == []


def test_a_file_of_several_commits_is_needed_until_its_last_one_is_in_the_bucket(tmp_path: Path) -> None:
    folder = fill(tmp_path / "0")
    several = f"{1:016x}-{5:016x}.ltx"
    (folder / several).touch()
    os.utime(folder / several, (OLD_S, OLD_S))

    assert several not in sent(folder, 4, NOW_S)
    assert several in sent(folder, 5, NOW_S)


def test_files_that_a_compaction_may_not_have_read_are_needed(tmp_path: Path) -> None:
    folder = fill(tmp_path / "0", written_at_s=NOW_S - 59)
    os.utime(folder / name_of(7), (OLD_S, OLD_S))
    assert sent(folder, LATEST, NOW_S) == [name_of(7)]


def test_of_many_recent_files_the_older_are_not_needed_either(tmp_path: Path) -> None:
    folder = fill(tmp_path / "0", written_at_s=NOW_S, latest=305)
    assert sent(folder, 305, NOW_S) == [name_of(position) for position in range(1, 6)]
    assert sent(folder, 2, NOW_S) == [name_of(1), name_of(2)]


@pytest.mark.parametrize(("latest", "many"), [(400, False), (401, True)])
def test_more_than_400_files_are_many_however_slowly_they_come(tmp_path: Path, latest: int, many: bool) -> None:
    database = tmp_path / "postroom.db"
    assert not FilePace().look(database, NOW_S)  # there is no folder yet
    folder = fill(local_state.level_0(database), latest=390)
    pace = FilePace()
    assert not pace.look(database, NOW_S)
    fill(folder, first=391, latest=latest)
    assert (pace.look(database, NOW_S + 1), pace.recent) == (many, 300)


def test_where_more_than_30_files_come_in_a_second_20_recent_ones_stay(tmp_path: Path) -> None:
    database = tmp_path / "postroom.db"
    folder = fill(local_state.level_0(database), written_at_s=NOW_S, latest=100)
    pace = FilePace()
    assert (pace.look(database, 1.0), pace.recent) == (False, 300)  # how fast those came is not known

    fill(folder, written_at_s=NOW_S, first=101, latest=130)
    assert (pace.look(database, 2.0), pace.recent) == (False, 300)
    for first, now_s in ((131, 3.0), (162, 4.0)):  # as fast the second time, whatever has gone meanwhile
        fill(folder, written_at_s=NOW_S, first=first, latest=first + 30)
        assert (pace.look(database, now_s), pace.recent) == (True, 20)
        pace.removed(remove_sent(database, first + 30, NOW_S, always, recent=pace.recent))
        assert positions(folder) == [*range(first + 11, first + 31)]

    fill(folder, written_at_s=NOW_S, first=193, latest=222)
    assert (pace.look(database, 5.0), pace.recent) == (False, 300)


@pytest.mark.parametrize(("came", "is_busy"), [(150, False), (151, True)])
def test_a_look_that_comes_late_counts_by_the_second(tmp_path: Path, came: int, is_busy: bool) -> None:
    """As where a sync takes long: else each look would find many files, and be followed by the next at once."""
    database = tmp_path / "postroom.db"
    folder = fill(local_state.level_0(database), latest=100)
    pace = FilePace()
    pace.look(database, 1.0)
    fill(folder, first=101, latest=100 + came)
    assert pace.look(database, 6.0) is is_busy


def test_files_that_could_not_be_counted_for_a_moment_are_not_new(tmp_path: Path) -> None:
    database = tmp_path / "postroom.db"
    folder = fill(local_state.level_0(database), latest=100)
    pace = FilePace()
    pace.look(database, 1.0)
    folder.rename(tmp_path / "away")
    assert not pace.look(database, 2.0)
    (tmp_path / "away").rename(folder)
    assert not pace.look(database, 3.0)


def test_nothing_but_files_of_litestream_is_touched(tmp_path: Path) -> None:
    database = tmp_path / "postroom.db"
    folder = fill(local_state.level_0(database))
    foreign = [
        f"{name_of(1)}.tmp",
        "notes.txt",
        name_of(10).upper(),
        "1-1.ltx",
        f"{1:016x}.ltx",
        f"x{name_of(1)}",
        f"{name_of(1)}\n",
    ]
    for name in foreign:
        (folder / name).touch()
        os.utime(folder / name, (OLD_S, OLD_S))
    other_level = fill(folder.with_name("1"))

    assert remove_sent(database, LATEST, NOW_S, always) == LATEST - NEWEST_KEPT

    kept = [name_of(position) for position in range(LATEST - NEWEST_KEPT + 1, LATEST + 1)]
    assert {path.name for path in folder.iterdir()} == {*foreign, *kept}
    assert positions(other_level) == [*range(1, LATEST + 1)]


def test_where_there_is_no_folder_nothing_is_removed(tmp_path: Path) -> None:
    assert remove_sent(tmp_path / "postroom.db", LATEST, NOW_S, always) == 0


def test_files_that_vanish_meanwhile_are_no_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = tmp_path / "postroom.db"
    folder = fill(local_state.level_0(database))
    unlink = os.unlink

    def unlink_late(name: str, **where: int) -> None:
        if name == name_of(2):
            unlink(folder / name)  # Litestream was faster
        unlink(name, **where)

    monkeypatch.setattr(os, "unlink", unlink_late)
    assert remove_sent(database, LATEST, NOW_S, always) == LATEST - NEWEST_KEPT - 1
    assert len(positions(folder)) == NEWEST_KEPT


def test_a_file_that_vanishes_while_its_age_is_asked_is_no_trouble(tmp_path: Path) -> None:
    folder = fill(tmp_path / "0")
    with os.scandir(folder) as entries:
        (entry,) = (entry for entry in entries if entry.name == name_of(1))
    (folder / name_of(1)).unlink()
    assert local_files._written_at_s(entry) == float("inf")


def test_the_position_of_an_earlier_litestream_removes_nothing(tmp_path: Path) -> None:
    database = tmp_path / "postroom.db"
    folder = fill(local_state.level_0(database))
    assert remove_sent(database, LATEST, NOW_S, lambda: False) == 0
    assert positions(folder) == [*range(1, LATEST + 1)]


def test_the_files_of_a_litestream_that_begins_meanwhile_stay(tmp_path: Path) -> None:
    """It numbers its commits from one again."""
    database = tmp_path / "postroom.db"
    folder = fill(local_state.level_0(database))

    def begins_right_after() -> bool:
        local_state.remove(database)
        fill(folder)
        return True

    assert remove_sent(database, LATEST, NOW_S, begins_right_after) == 0
    assert positions(folder) == [*range(1, LATEST + 1)]


def at(position: int) -> tuple[int, str]:
    """The answer of a Litestream that has brought everything up to this position to the bucket."""
    return 200, json.dumps({"txid": position, "replicated_txid": position})


AWAY = 500, '{"error": "replica sync: connection refused"}'


@pytest.mark.parametrize(("answer", "gone"), [(at(12), 12), (AWAY, 0)], ids=["caught up", "behind"])
def test_the_supervisor_removes_files_when_litestream_has_caught_up(
    database: Path, answers: list[tuple[int, str]], answer: tuple[int, str], gone: int
) -> None:
    folder = fill(local_state.level_0(database), written_at_s=1.0)
    answers += [answer] * 3

    Scripted(database).look(1)

    assert positions(folder) == [*range(gone + 1, LATEST + 1)]


def test_the_supervisor_removes_many_files_before_its_next_look(database: Path, answers: list[tuple[int, str]]) -> None:
    folder = fill(local_state.level_0(database), written_at_s=time.time(), latest=401)
    answers += [at(401)] * 9

    Scripted(database).look_for_ever(lambda: len(positions(folder)) <= 300)

    assert positions(folder) == [*range(102, 402)]


def test_the_supervisor_keeps_20_recent_files_while_many_come(database: Path, answers: list[tuple[int, str]]) -> None:
    folder = fill(local_state.level_0(database), written_at_s=time.time(), latest=100)
    answers += [at(10**6)] * 99
    began, latest = time.monotonic(), [100]

    def is_seen() -> bool:
        """Two hundred more come each second, however late this is asked; the first look can't know how fast they come.

        Where more than 400 are there, a look keeps 300.
        """
        first, latest[0] = latest[0] + 1, 100 + int(200 * (time.monotonic() - began))
        fill(folder, written_at_s=time.time(), first=first, latest=latest[0])
        return len(positions(folder)) < 100

    Scripted(database).look_for_ever(is_seen)

    assert positions(folder)[-1] == latest[0]


def remove_all_but_the_newest(database: Path, socket: Path) -> int:
    """Remove what may go, as if it were an hour later; returns the position before which nothing is left."""
    replicated = asyncio.run(sync(socket, database, 30.0))
    assert remove_sent(database, replicated, time.time() + LATER_S, always) > 0
    left = positions(local_state.level_0(database))
    assert len(left) == NEWEST_KEPT
    return left[0]


def write_and_sync(replicating: Replicating, what: str) -> None:
    for number in range(LATEST):
        replicating.write(f"{what} {number}")
        replicating.sync()


def test_replication_goes_on_without_the_old_local_files(replicating: Replicating) -> None:
    for part in ("first", "second"):
        write_and_sync(replicating, part)
        remove_all_but_the_newest(replicating.database, replicating.socket)
    replicating.write("last")

    assert replicating.restored() == replicating.live()
    assert replicating.process.events("replicate.behind") == []


def test_litestream_goes_on_after_a_good_stop_without_the_old_local_files(replicating: Replicating) -> None:
    write_and_sync(replicating, "first")
    first = remove_all_but_the_newest(replicating.database, replicating.socket)
    prefix = replicating.prefix
    replicating.writer.close()
    assert replicating.process.stop(signal.SIGTERM)[0] == 0
    replicating.writer = open_connection(replicating.database)
    replicating.write("meanwhile")
    replicating.start()
    write_and_sync(replicating, "second")
    assert remove_all_but_the_newest(replicating.database, replicating.socket) > first

    assert replicating.restored() == replicating.live()
    assert replicating.prefix == prefix


def test_many_local_files_go_as_soon_as_they_are_in_the_bucket(replicating: Replicating) -> None:
    for number in range(450):
        replicating.write(f"one of many {number}")
        replicating.sync()
    folder = local_state.level_0(replicating.database)
    until(lambda: len(positions(folder)) <= 400, "450 files of the last seconds stay")

    assert positions(folder)[-1] >= 450
    assert replicating.restored() == replicating.live()


CONFIGURATION = """
socket: {{enabled: true, path: {folder}/l.sock}}
logging: {{level: info, type: json}}
levels: [{{interval: 3s}}]
l0-retention: 1s
l0-retention-check-interval: 1s
verify-compaction: true
dbs:
  - path: {folder}/postroom.db
    monitor-interval: 10ms
    replica: {{url: "file://{folder}/replica", sync-interval: 10ms, auto-recover: false}}
"""


def test_compaction_and_retention_in_the_bucket_need_no_local_files(tmp_path: Path) -> None:
    database, socket = tmp_path / "postroom.db", tmp_path / "l.sock"
    level_0, level_1 = (tmp_path / "replica" / "ltx" / level for level in "01")
    prepare_database(database)
    (tmp_path / "l.yml").write_text(CONFIGURATION.format(folder=tmp_path))
    writer = open_connection(database)
    litestream = Process(program(), "replicate", "-config", tmp_path / "l.yml", environment={})
    try:
        until(lambda: positions(level_1), "Litestream compacts nothing")
        first, compacted = 0, 0
        while compacted != positions(level_1)[-1]:  # else a compaction came before they went
            compacted = positions(level_1)[-1]
            for number in range(NEWEST_KEPT + 5):
                with transaction(writer):
                    meta.put(writer, f"key {number}", "x" * 9000)
                replicated = asyncio.run(sync(socket, database, 30.0))
            remove_sent(database, replicated, time.time() + LATER_S, always)
            first = positions(local_state.level_0(database))[0]
        assert compacted < first - 1

        until(lambda: positions(level_1)[-1] >= first, "Litestream compacts nothing without local files")
        until(lambda: positions(level_0)[0] >= first, "the bucket's files stay")
        with transaction(writer):
            meta.put(writer, "last", "")
        asyncio.run(sync(socket, database, 30.0))
        said = [*litestream.out, *litestream.err]
    finally:
        litestream.close()

    subprocess.run(
        restore_command(f"file://{tmp_path}/replica", tmp_path / "copy.db"), check=True, capture_output=True, timeout=60
    )
    copy = open_connection(tmp_path / "copy.db", readonly=True)
    everything = "SELECT * FROM meta ORDER BY key"
    assert rows(copy, everything) == rows(writer, everything)
    assert not [line for line in said if re.search(r'"level":"(ERROR|WARN)"', line)]
    copy.close()
    writer.close()
