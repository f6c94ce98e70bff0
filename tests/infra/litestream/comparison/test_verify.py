"""Only a restore that is compared row by row proves what is in the bucket."""

import asyncio
import contextlib
import http.server
import itertools
import json
import math
import os
import signal
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import pytest

from infra.litestream.comparison import compare, table_digests
from infra.litestream.comparison.compare import NotVerified, compare_with_restore, remove_leftovers
from infra.litestream.comparison.finding import Comparison
from infra.litestream.comparison.verify import parse_output
from infra.litestream.prepare import prepare_replication
from infra.litestream.replica_settings import verify_every_ms_from
from infra.litestream.replicate import CONFIG_FILE
from infra.litestream.restore import own_lease
from infra.litestream.supervisor import LitestreamSupervisor
from shared.core.errors import ConfigInvalid
from shared.db.engine import meta
from shared.db.engine.connection import open_connection, rows, scalar, transaction
from shared.db.engine.lock import WorkerLock
from shared.db.replica import sync_permit
from shared.db.replica.litestream_program import environment_for, program
from shared.db.replica.sync import sync
from tests.emulator.harness import descendants, wait_gone, wait_until
from tests.infra.litestream.test_checkpoints import MORE_THAN_LITESTREAM_LEAVES, Running, grow
from tests.infra.litestream.test_litestream import command
from tests.infra.processes import Process, python
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
    assert refused(running) == "the replica has no full copy yet, or its lease has run out: is infra.replicate well?"


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


# -- by the supervisor


def keeper_of(
    folder: Path, db: Path, tell: Callable[..., None], on_line: Callable[[str], None] = lambda _: None
) -> LitestreamSupervisor:
    told = settings_of(folder, db)
    return LitestreamSupervisor(
        [program(), "replicate", "-config", CONFIG_FILE],
        replica=told["POSTROOM_REPLICA_URL"],
        environment=environment_for(ENVIRONMENT | told),
        database=db,
        control=Path(told["POSTROOM_LITESTREAM_SOCKET"]),
        lease=own_lease(db, told["POSTROOM_REPLICA_URL"]),
        report=tell,
        on_line=on_line,
    )


def test_on_a_difference_the_supervisor_starts_another_litestream_with_a_full_copy(conn, db, tmp_path):
    told: list[tuple[str, dict[str, Any]]] = []

    def events(name: str) -> list[dict[str, Any]]:
        return [facts for event, facts in told if event == name]

    async def settled(supervisor: LitestreamSupervisor) -> bool:
        """Verify again until a busy Litestream answers in time."""
        before = len(events("replicate.differs"))
        for _ in range(10):
            if await supervisor.comparison.compare() or len(events("replicate.differs")) > before:
                break
        return len(events("replicate.differs")) == before

    def wait_for(name: str, times: int) -> None:
        wait_until(lambda: len(events(name)) >= times, what=name)

    async def scenario() -> None:
        supervisor = keeper_of(
            tmp_path, db, lambda event, **facts: told.append((event, facts)), lambda line: told.append((line, {}))
        )
        await prepare_replication(db, f"file://{tmp_path}/replica", supervisor.lease, ENVIRONMENT)
        await supervisor.start()
        try:
            await asyncio.to_thread(wait_for, "replicate.begun", 1)
            await asyncio.to_thread(wait_until, lambda: any(SNAPSHOT in event for event, _ in told), what="a snapshot")
            first = supervisor.current_url
            await asyncio.to_thread(lose_a_row, conn, supervisor.pid, supervisor.control)

            assert not await settled(supervisor)
            assert not sync_permit.is_valid(supervisor.control)
            (differs,) = events("replicate.differs")
            assert "agents" in [each["table"] for each in differs["differences"]]

            await asyncio.to_thread(wait_for, "replicate.begun", 2)
            assert supervisor.current_url != first
            assert await settled(supervisor)
            assert [facts["replica"] for facts in events("replicate.verified")] == [supervisor.current_url]
        finally:
            await supervisor.stop()

    asyncio.run(scenario())


def test_the_supervisor_compares_on_schedule_and_a_stop_leaves_nothing_behind(conn, db, tmp_path):
    grow(conn, 30_000_000)  # so that a restore takes a moment
    environment = settings_of(tmp_path, db) | {"POSTROOM_REPLICA_VERIFY": "1ms"}
    supervisor = Process(sys.executable, *command("litestream")[1:], environment=environment)
    try:
        supervisor.wait_for("replicate.verified", 2)
        wait_until(lambda: leftovers(tmp_path), what="a restore")
        pids = descendants(supervisor.pid)
        assert supervisor.stop(signal.SIGTERM)[0] == 0
        wait_gone(pids)
        assert {line["event"] for line in map(json.loads, supervisor.out) if line.get("level") == "error"} == set()
    finally:
        supervisor.close()
    assert leftovers(tmp_path) == []


def test_a_failed_comparison_is_reported_once_until_the_reason_changes(db, tmp_path):
    told: list[dict[str, Any]] = []

    async def scenario() -> None:
        supervisor = keeper_of(tmp_path, db, lambda event, **facts: told.append({"event": event, **facts}))
        assert not await supervisor.comparison.compare()
        assert not await supervisor.comparison.compare()
        db.unlink()
        assert not await supervisor.comparison.compare()

    asyncio.run(scenario())
    assert {line["event"] for line in told} == {"replicate.not_verified"}
    assert [line["reason"] for line in told] == [
        "the replica has no full copy yet: is infra.replicate well?",
        f"there is no database {db}",
    ]


def test_leftovers_that_can_not_be_removed_are_no_error(tmp_path):
    remove_leftovers(tmp_path / "none" / "p.db")
    assert list(tmp_path.iterdir()) == []


def test_foreign_output_becomes_the_reason():
    line = json.dumps({"event": "verify.differs", "level": "error", "rows": 1})
    assert parse_output(f"a warning\n{line}\n") == ("verify.differs", {"rows": 1})
    assert parse_output('{"event": "verify.refused", "reason": "why"}') == ("verify.not_verified", {"reason": "why"})
    killed = {"reason": "the comparison ended before its time: Traceback\n  7"}
    assert parse_output("Traceback\n  7") == ("verify.not_verified", killed)
    assert parse_output("")[0] == "verify.not_verified"


@pytest.mark.parametrize(
    ("text", "ms"), [(None, 86_400_000), ("", 86_400_000), ("0", 0), ("48h", 172_800_000), ("30m", 1_800_000)]
)
def test_the_interval_of_comparisons_is_a_duration(text, ms):
    assert verify_every_ms_from({} if text is None else {"POSTROOM_REPLICA_VERIFY": text}) == ms


@pytest.mark.parametrize("text", ["daily", "h", "0h", "-1h", "1.5h", "24"])
def test_an_interval_that_is_no_duration_is_refused(text):
    with pytest.raises(ConfigInvalid, match=r"POSTROOM_REPLICA_VERIFY is .*: write 0 .never. or a whole number"):
        verify_every_ms_from({"POSTROOM_REPLICA_VERIFY": text})


class _Unix(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


@contextlib.contextmanager
def bucket_that_waits_for_a_writer(socket: Path, db: Path, *, is_busy: bool = False) -> Iterator[None]:
    """A Litestream that says "replicated" only when another process has written to the database meanwhile.

    Where *is_busy*, others also write whenever it reads the log and the write gate is free.
    """
    reads = itertools.count(1)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if asked["wait"] or (is_busy and next(reads) % 2):  # each second one is asked inside the gate
                writer = open_connection(db)
                with transaction(writer):
                    meta.put(writer, "written", str(time.monotonic()))
                writer.close()
            body = json.dumps({"txid": 42, "replicated_txid": 42 if asked["wait"] else 7}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def address_string(self) -> str:
            return "unix"

        def log_message(self, *_: object) -> None:
            return

    with _Unix(str(socket), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        sync_permit.grant(socket, math.inf)
        yield
        server.shutdown()


def test_writers_wait_for_litestream_to_read_the_log_and_never_for_the_bucket(db, tmp_path):
    socket = tmp_path / "l.sock"
    verification = compare._Verification(db, "file:///none", socket, {}, lambda _: 1 << 40, 30.0)
    with bucket_that_waits_for_a_writer(socket, db), ThreadPoolExecutor(1) as executor:
        live = executor.submit(verification._live).result(60)  # a thread of its own, for it lowers its priority

    assert live.position == f"{42:016x}"
    assert live.kept_s == 0
    conn = open_connection(db, readonly=True)
    now = table_digests.read(conn)
    conn.close()
    assert [each.table for each in table_digests.differences(live.tables, now)] == ["meta"], "written after the copy"


def test_where_others_write_writers_wait_for_a_moment(db, tmp_path):
    socket = tmp_path / "l.sock"
    verification = compare._Verification(db, "file:///none", socket, {}, lambda _: 1 << 40, 30.0)
    with bucket_that_waits_for_a_writer(socket, db, is_busy=True):
        _, _, kept_s = verification._copy_live(tmp_path / "copies" / "live.db")

    assert kept_s > 0
