"""Only a restore that is compared row by row proves what is in the bucket."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import pytest

from infra.litestream.comparison.compare import NotVerified, compare_with_restore
from infra.litestream.comparison.finding import Comparison
from shared.db.engine import meta
from shared.db.engine.connection import rows, scalar, transaction
from shared.db.engine.lock import WorkerLock
from shared.db.replica import sync_permit
from shared.db.replica.sync import sync
from tests.emulator.harness import wait_until
from tests.infra.litestream.test_checkpoints import MORE_THAN_LITESTREAM_LEAVES, Running, grow
from tests.infra.processes import python
from tests.liveness import freeze
from tests.support import make_agent

ENVIRONMENT = {"PATH": os.environ["PATH"]}
PATIENCE_S = 60.0
TOO_BUSY = "did not answer within"
SNAPSHOT = '"msg":"snapshot complete"'
WRITER = """
import sys
from pathlib import Path
from shared.db.engine import meta
from shared.db.engine.connection import open_connection, rows, transaction

conn = open_connection(Path(sys.argv[1]))
number = 0
while True:
    number += 1
    with transaction(conn):
        meta.put(conn, "written", str(number))
        rows(conn, "INSERT INTO events (type, data, created_at) VALUES ('x', '{}', 1)")
"""


@pytest.fixture
def running(conn: apsw.Connection, db: Path, tmp_path: Path) -> Iterator[Running]:
    found = Running(tmp_path, db)
    try:
        found.begin(conn)
        # One that is made later would have in it what is lost before that.
        wait_until(lambda: any(SNAPSHOT in line for line in found.supervisor.out), what="its first snapshot")
        yield found
    finally:
        found.supervisor.close()


def settings_of(folder: Path, db: Path) -> dict[str, str]:
    return {
        "POSTROOM_DB": str(db),
        "POSTROOM_REPLICA_URL": f"file://{folder}/replica",
        "POSTROOM_LITESTREAM_SOCKET": str(folder / "litestream.sock"),
    }


def verified(environment: dict[str, str]) -> tuple[int, dict[str, Any]]:
    """The program's exit code and its one log line, as soon as a busy Litestream answers in time."""
    for _ in range(10):
        process = python("-m", "infra.verify", environment=environment)
        try:
            code = process.end()
            assert process.err == []
            (line,) = process.out
        finally:
            process.close()
        if TOO_BUSY not in line:
            break
    return code, json.loads(line)


def lose_a_row(conn: apsw.Connection, litestream: int, socket: Path) -> None:
    """As a shell does that checkpoints: frames that Litestream had not read are moved, and the log begins again over
    them.

    That succeeds when Litestream's own last checkpoint was part of a request, and not of its own round.
    """
    db = Path(conn.filename)
    for _ in range(100):
        for size in (MORE_THAN_LITESTREAM_LEAVES, 1000, 1000, 1000):
            grow(conn, size)
            asyncio.run(sync(socket, db, PATIENCE_S))
        freeze(litestream)
        grow(conn, MORE_THAN_LITESTREAM_LEAVES)
        make_agent(conn, "lost")
        stranger = apsw.Connection(str(db))
        ((_, written, moved),) = rows(stranger, "PRAGMA wal_checkpoint(PASSIVE)")
        if moved == written:
            with transaction(conn):
                meta.put(conn, "heartbeat_at", "1")
        stranger.close()
        os.kill(litestream, signal.SIGCONT)
        if moved == written:
            return
        with transaction(conn):
            rows(conn, "DELETE FROM agents WHERE id = 'lost'")
    pytest.fail("Litestream keeps its read transaction")


def leftovers(folder: Path) -> list[Path]:
    return list(folder.glob("*.verifying"))


# -- by hand


def test_a_restore_equals_the_database_beside_a_writer_at_full_speed(running, conn, db, tmp_path):
    writer = python("-c", WRITER, str(db), environment={})
    try:
        before = int(wait_until(lambda: meta.get(conn, "written"), what="the first row"))
        size = db.stat().st_size
        found = [verified(running.environment) for _ in range(3)]
        after = int(meta.get(conn, "written") or 0)
    finally:
        writer.close()

    assert [(code, said["event"]) for code, said in found] == [(0, "verify.equal")] * 3, found
    assert after > before
    told = found[0][1]
    tables = scalar(conn, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB '_litestream*'")
    assert told["tables"] == tables + 1
    assert told["replica"] == running.supervisor.events("replicate.started")[0]["replica"]
    assert told["rows"] >= before
    assert told["bytes"] >= size // 2
    assert leftovers(tmp_path) == []


def test_a_commit_that_the_replica_lost_is_reported_with_its_table(running, conn, tmp_path):
    lose_a_row(conn, running.pid, Path(running.environment["POSTROOM_LITESTREAM_SOCKET"]))

    code, said = verified(running.environment)

    agents = scalar(conn, "SELECT count(*) FROM agents")
    assert (code, said["event"], said["level"]) == (65, "verify.differs", "error")
    assert {"table": "agents", "here": agents, "there": agents - 1} in said["differences"]
    assert leftovers(tmp_path) == []


def remove(file: Path) -> None:
    file.unlink()


def damage(file: Path) -> None:
    body = bytearray(file.read_bytes())
    body[len(body) // 2] ^= 255
    file.write_bytes(body)


@pytest.mark.parametrize("harm", [remove, damage])
def test_a_replica_that_does_not_restore_differs(running, conn, tmp_path, harm):
    for _ in range(10):  # Litestream may mend it meanwhile, when a round of its own makes fewer files of many
        grow(conn, 1000)
        running.sync()
        (levels,) = tmp_path.glob("replica/*/ltx/0")
        harm(sorted(levels.iterdir())[-2])
        for snapshot in tmp_path.glob("replica/*/ltx/[1-9]/*"):
            snapshot.unlink()
        code, said = verified(running.environment)
        if code != 0:
            break

    assert (code, said["event"]) == (65, "verify.differs")
    assert "restore" in said["damage"]
    assert "differences" not in said
    assert leftovers(tmp_path) == []


def compared(running: Running, **more: Any) -> Comparison:
    """Compared in a thread of its own: it lowers the priority of the thread that compares, for good."""
    told = running.environment
    with ThreadPoolExecutor(1) as aside:
        return aside.submit(
            compare_with_restore,
            Path(told["POSTROOM_DB"]), told["POSTROOM_REPLICA_URL"], Path(told["POSTROOM_LITESTREAM_SOCKET"]),
            ENVIRONMENT, **more,
        ).result()  # fmt: skip


def refused(running: Running, **more: Any) -> str:
    """The reason why nothing was compared."""
    with pytest.raises(NotVerified) as error:
        compared(running, **more)
    return str(error.value)


def test_without_room_nothing_is_restored_and_the_missing_bytes_are_named(running, db, tmp_path):
    pages = scalar(apsw.Connection(str(db)), "PRAGMA page_count")
    missing = -(-(pages * 4096 + 256 * 1024 * 1024 - 1_000_000) // 1_000_000)
    assert refused(running, free=lambda _: 1_000_000).endswith(f"{missing} MB are missing")
    assert leftovers(tmp_path) == []


def test_a_second_comparison_at_once_is_refused(running, db, tmp_path):
    right = WorkerLock(db, "verify")
    assert right.try_acquire()
    (its := tmp_path / "p.db.verifying").mkdir()
    assert refused(running).startswith("another comparison of ")
    right.release()
    assert its.exists()


def test_leftovers_of_a_killed_comparison_are_removed_by_the_next(running, tmp_path):
    (tmp_path / "p.db.verifying").mkdir()
    (tmp_path / "p.db.verifying" / "restored.db.tmp").touch()
    assert verified(running.environment)[0] == 0
    assert leftovers(tmp_path) == []


def test_litestream_that_does_not_answer_is_no_difference(running):
    running.freeze()
    assert TOO_BUSY in refused(running, patience_s=0.5)


def test_a_prefix_without_a_permit_is_not_compared(running):
    freeze(running.supervisor.pid)
    sync_permit.revoke(Path(running.environment["POSTROOM_LITESTREAM_SOCKET"]))
    assert refused(running) == "the replica has no full copy yet, or its lease has run out: is infra.replicate running?"


def test_a_new_prefix_during_the_comparison_is_no_difference(running, tmp_path):
    def move(_: Path) -> int:
        os.kill(running.pid, signal.SIGKILL)
        running.supervisor.wait_for("replicate.begun", 2)
        return 1 << 50

    assert refused(running, free=move) == "Litestream began a new prefix meanwhile: try again"
    assert leftovers(tmp_path) == []


def test_a_difference_counts_only_if_a_second_comparison_finds_one(running, conn, tmp_path):
    make_agent(conn, "kept")
    running.sync()
    (levels,) = tmp_path.glob("replica/*/ltx/0")
    newest, aside = max(levels.iterdir()), tmp_path / "aside"
    calls = []

    def stumble(_: Path) -> int:
        calls.append(newest.rename(aside) if not calls else aside.rename(newest))
        return 1 << 50

    found = compared(running, free=stumble)
    assert (len(calls), found.is_equal, found.damage) == (2, True, None)


def test_a_bucket_that_is_away_is_no_difference(running, tmp_path):
    (tmp_path / "replica").rename(tmp_path / "away")
    (tmp_path / "replica").touch()
    code, said = verified(running.environment)
    assert (code, said["event"], said["level"]) == (69, "verify.not_verified", "warning")


def test_without_litestream_or_a_database_nothing_is_compared(db, tmp_path):
    found = [verified(settings_of(tmp_path, file)) for file in (db, tmp_path / "none.db")]
    assert [(code, said["event"]) for code, said in found] == [(69, "verify.not_verified")] * 2
    assert found[1][1]["reason"] == f"there is no database {tmp_path / 'none.db'}"


def test_a_missing_setting_is_named(db):
    code, said = verified({"POSTROOM_DB": str(db)})
    assert (code, said["event"]) == (78, "verify.refused")
    assert "POSTROOM_REPLICA_URL is not set" in said["reason"]
