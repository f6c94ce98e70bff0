"""The supervisor compares on its schedule, and acts on what it finds."""

import asyncio
import contextlib
import http.server
import itertools
import json
import math
import signal
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from infra.litestream.comparison import compare, table_digests
from infra.litestream.comparison.compare import remove_leftovers
from infra.litestream.comparison.verify import parse_output
from infra.litestream.prepare import prepare_replication
from infra.litestream.replica_settings import verify_every_ms_from
from infra.litestream.replicate import CONFIG_FILE
from infra.litestream.restore import own_lease
from infra.litestream.supervisor import LitestreamSupervisor
from shared.core.errors import ConfigInvalid
from shared.db.engine import meta
from shared.db.engine.connection import open_connection, transaction
from shared.db.replica import sync_permit
from shared.db.replica.litestream_program import environment_for, program
from tests.emulator.harness import descendants, wait_gone, wait_until
from tests.infra.litestream.comparison.test_verify import ENVIRONMENT, SNAPSHOT, leftovers, lose_a_row, settings_of
from tests.infra.litestream.test_checkpoints import grow
from tests.infra.litestream.test_litestream import command
from tests.infra.processes import Process


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
        "the replica has no full copy yet: is infra.replicate running?",
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
