"""A Litestream that runs is no proof that it replicates."""

import asyncio
import http.server
import json
import os
import shlex
import signal
import socketserver
import subprocess
import sys
import threading
from collections import UserDict
from collections.abc import Callable, Iterator, KeysView
from pathlib import Path
from typing import Any

import pytest

from infra.litestream import local_state
from infra.litestream.lease import Lease
from infra.litestream.lease_owner import owner_of
from infra.litestream.replica_settings import LEASE_MS
from infra.litestream.restored_files import HistoryFacts
from infra.litestream.standstill import LookPace
from infra.litestream.supervisor import LitestreamSupervisor
from infra.processes import spawn
from shared.core.errors import NotReplicated
from shared.db.engine import meta
from shared.db.engine.connection import open_connection, rows, transaction
from shared.db.replica.folder_store import FolderStore
from shared.db.replica.sync import sync
from shared.roster.new_database import prepare_database
from tests.infra.litestream.test_litestream import command, until
from tests.infra.processes import ROOT, Process
from tests.shared.db.engine.test_write_gate import in_a_commit

ENVIRONMENT = {"PATH": os.environ["PATH"]}
LOG_HEADER = 32  # bytes
UNTIL_STOPPED = 'trap "$0" TERM; echo up; while :; do sleep 0.01; done'
CANT_READ = "sync database: db sync: sync: write ltx from db: read database page 136: EOF"


class _Unix(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


@pytest.fixture
def answers(tmp_path: Path) -> Iterator[list[tuple[int, str]]]:
    """The next answers of a Litestream at ``tmp_path/litestream.sock``; 200 when none is left."""
    queue: list[tuple[int, str]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            status, text = queue.pop(0) if queue else (200, '{"txid": 1, "replicated_txid": 1}')
            self.send_response(status)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def address_string(self) -> str:
            return "unix"

        def log_message(self, *_: object) -> None:
            return

    with _Unix(str(tmp_path / "litestream.sock"), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield queue
        server.shutdown()


def pages_in_file(path: Path) -> int:
    return path.stat().st_size // 4096


class Scripted:
    """A supervisor of a Litestream whose answers are scripted, and the events that it reported."""

    def __init__(self, database: Path, socket: Path) -> None:
        self.told: list[str] = []
        self._database, self._socket = database, socket
        self._again = asyncio.Event()

    def _tell(self, event: str, **_: object) -> None:
        self.told.append(event)
        if event == "replicate.litestream_started":
            self._again.set()

    def look(self, times: int, says: str = "starting") -> list[str | None]:
        """Look at a Litestream that prints *says* at its start; return when another Litestream runs."""
        argv = ["sh", "-c", f"echo {shlex.quote(says)}; exec sleep 60"]

        async def look() -> list[str | None]:
            heard = asyncio.Event()
            pace = LookPace(every_s=3600, behind_s=3600)  # no look but those of the test
            supervisor = self._supervisor(argv, on_line=lambda _: heard.set(), pace=pace)
            await supervisor.start(await spawn(argv, environment=ENVIRONMENT))
            await asyncio.wait_for(heard.wait(), 60)
            found = [await supervisor.look() for _ in range(times)]
            if {"replicate.mending", "replicate.doubtful"} & {*self.told}:
                await asyncio.wait_for(self._again.wait(), 60)
            await supervisor.stop()
            return found

        return asyncio.run(look())

    def look_for_ever(self, is_over: Callable[[], bool]) -> None:
        """Supervise at its own pace, which has an hour between two looks, until *is_over*."""

        async def go_on() -> None:
            supervisor = self._supervisor(["sleep", "60"], pace=LookPace(every_s=3600))
            await supervisor.start(await spawn(["sleep", "60"], environment=ENVIRONMENT))
            async with asyncio.timeout(60):
                while not is_over():  # noqa: ASYNC110 - a thread removes the files
                    await asyncio.sleep(0.01)
            await supervisor.stop()

        asyncio.run(go_on())

    def _supervisor(self, argv: list[str], **options: Any) -> LitestreamSupervisor:
        lease = lease_of(self._database)
        lease._write(lambda there: there.with_full_copy(there.current, None))  # else it asks Litestream for one
        return LitestreamSupervisor(
            argv, replica=f"file://{self._database.parent}/replica", environment=ENVIRONMENT,
            database=self._database, control=self._socket, lease=lease, report=self._tell, **options,
        )  # fmt: skip


def lease_of(database: Path, ttl_ms: int = LEASE_MS) -> Lease:
    lease = Lease(FolderStore(database.parent / "replica"), owner_of(database.with_name("owner"), database), ttl_ms)
    lease._take(lambda _: None)
    return lease


class CalledOff(UserDict[str, str]):
    """An environment whose second reader, the start of another Litestream, is cancelled by *called*."""

    def __init__(self, call: Callable[[], None]) -> None:
        super().__init__(ENVIRONMENT)
        self._call, self._readers = call, 0

    def keys(self) -> KeysView[str]:
        self._readers += 1
        if self._readers == 2:
            self._call()
        return super().keys()


def test_a_stop_during_the_start_of_another_litestream_ends_that_one_too(tmp_path: Path) -> None:
    database = tmp_path / "postroom.db"
    prepare_database(database)
    argv = ["sh", "-c", f"[ -e {tmp_path}/second ] && exec sleep 300; touch {tmp_path}/second; exit 1"]

    async def stopped() -> int:
        stopping: asyncio.Future[asyncio.Task[int]] = asyncio.get_running_loop().create_future()
        supervisor = LitestreamSupervisor(
            argv, replica=f"file://{tmp_path}/replica",
            environment=CalledOff(lambda: stopping.set_result(asyncio.create_task(supervisor.stop()))),
            database=database,
            control=tmp_path / "litestream.sock", lease=lease_of(database), report=lambda *_, **__: None,
        )  # fmt: skip
        await supervisor.start()
        return await asyncio.wait_for(await asyncio.wait_for(stopping, 60), 60)

    assert asyncio.run(stopped()) == -signal.SIGKILL


class Started:
    """A supervisor of a shell script in the place of Litestream, started; it is stopped at the end of the block."""

    def __init__(self, database: Path, script: str, *words: str, ttl_ms: int = LEASE_MS, **options: Any) -> None:
        self.said: asyncio.Queue[str] = asyncio.Queue()
        self.supervisor = LitestreamSupervisor(
            ["sh", "-c", script, *words], replica=f"file://{database.parent}/replica", environment=ENVIRONMENT,
            database=database, control=database.with_name("l.sock"), lease=lease_of(database, ttl_ms),
            report=lambda *_, **__: None, on_line=self.said.put_nowait, **options,
        )  # fmt: skip

    async def until(self, line: str) -> None:
        async with asyncio.timeout(60):
            while await self.said.get() != line:
                pass

    async def __aenter__(self) -> "Started":
        await self.supervisor.start()
        await self.until("up")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.supervisor.stop()


def test_the_log_is_begun_before_litestream_reads_it(tmp_path: Path) -> None:
    """Else the next writer begins it again while Litestream makes its first copy; see ``begin_log``."""
    database, seen = tmp_path / "postroom.db", tmp_path / "seen"
    prepare_database(database)
    writer = open_connection(database)  # keeps the log alive, as the functions do
    with transaction(writer):
        meta.put(writer, "key", "value")
    assert writer.wal_checkpoint()[0] == writer.wal_checkpoint()[1] > 0
    before = database.with_name("postroom.db-wal").read_bytes()[:LOG_HEADER]

    async def scenario() -> None:
        async with Started(database, f"cp {database}-wal {seen}; echo up; exec sleep 60"):
            pass

    asyncio.run(scenario())
    assert seen.read_bytes()[:LOG_HEADER] != before, "the salt of another log"
    writer.close()


ENDS = {
    "in good order": ("exit 0", True),
    "with an error": ("exit 3", False),
    "in trouble": ('echo \'{"msg":"sync error"}\'; exit 0', False),
}


@pytest.mark.parametrize(("end", "is_trusted"), ENDS.values(), ids=ENDS)
def test_local_state_is_trusted_only_after_a_stop_in_good_order(tmp_path: Path, end: str, is_trusted: bool) -> None:
    database = tmp_path / "postroom.db"
    prepare_database(database)

    async def scenario() -> None:
        async with Started(database, UNTIL_STOPPED, end):
            pass

    asyncio.run(scenario())
    assert local_state.is_trusted(database) == is_trusted


def test_local_state_is_trusted_after_a_stop_while_we_read_the_database(tmp_path: Path) -> None:
    """A renewal of the lease reads, and at a stop it is cancelled; a reader keeps the log."""
    database = tmp_path / "postroom.db"
    prepare_database(database)
    reads, may_end = threading.Event(), threading.Event()

    def read(path: Path) -> HistoryFacts:
        if not reads.is_set():
            reader = open_connection(path, readonly=True)
            rows(reader, "SELECT key FROM meta")
            reads.set()
            may_end.wait(60)
            reader.close()
        return HistoryFacts(None, 0)

    async def scenario() -> None:
        async with Started(database, UNTIL_STOPPED, "exit 0", ttl_ms=40, read=read) as started:
            assert await asyncio.to_thread(reads.wait, 60)
            stopping = asyncio.create_task(started.supervisor.stop())
            await asyncio.wait([stopping], timeout=0.5)  # where it does not wait for the reader, it ends before
            may_end.set()
            assert await stopping == 0
            assert local_state.is_trusted(database)

    asyncio.run(scenario())


def test_local_state_is_not_trusted_after_a_death_in_a_commit_during_the_stop(tmp_path: Path) -> None:
    """Litestream may have sent that commit in its last sync."""
    database, died = tmp_path / "postroom.db", tmp_path / "died"
    prepare_database(database)
    end = f"echo ending; while [ ! -e {died} ]; do sleep 0.01; done; exit 0"

    async def scenario() -> None:
        async with Started(database, UNTIL_STOPPED, end) as started:
            with in_a_commit(database) as victim:
                stopping = asyncio.create_task(started.supervisor.stop())
                await started.until("ending")
                victim.die()
            died.touch()
            assert await stopping == 0

    asyncio.run(scenario())
    assert not local_state.is_trusted(database)


@pytest.mark.parametrize(
    ("looks", "is_mended", "told"),
    [
        (1, False, ["behind"]),  # once may be chance
        (2, True, ["behind", "mending", "litestream_ended", "litestream_started"]),
    ],
)
def test_pages_that_litestream_can_not_read_are_checkpointed_at_the_second_look(
    tmp_path: Path, answers: list, looks: int, is_mended: bool, told: list[str]
) -> None:
    database = tmp_path / "postroom.db"
    prepare_database(database)
    writer = open_connection(database)  # keeps the WAL alive, as the functions do
    with transaction(writer):
        for number in range(300):
            meta.put(writer, f"key {number}", "x" * 1000)
    before = pages_in_file(database)
    supervisor = Scripted(database, tmp_path / "litestream.sock")

    answers += [(500, json.dumps({"error": CANT_READ}))] * looks
    assert CANT_READ in (supervisor.look(looks)[-1] or "")

    assert (pages_in_file(database) > before + 50) == is_mended
    assert [event.removeprefix("replicate.") for event in supervisor.told[:4]] == told
    writer.close()


def test_a_replica_that_is_away_is_not_mended(tmp_path: Path, answers: list) -> None:
    database = tmp_path / "postroom.db"
    prepare_database(database)
    writer = open_connection(database)
    with transaction(writer):
        meta.put(writer, "key", "x" * 100_000)
    before = pages_in_file(database)
    supervisor = Scripted(database, tmp_path / "litestream.sock")

    answers += [(500, '{"error": "replica sync: dial tcp: connection refused"}')] * 3
    supervisor.look(4)

    assert pages_in_file(database) == before
    assert supervisor.told == ["replicate.behind", "replicate.caught_up"]
    writer.close()


@pytest.mark.parametrize("says", ["sync error", "disk full while staging ltx file"])
def test_a_litestream_in_trouble_is_killed_and_another_begins_with_a_full_copy(tmp_path: Path, says: str) -> None:
    database = tmp_path / "postroom.db"
    prepare_database(database)
    supervisor, note = Scripted(database, tmp_path / "litestream.sock"), local_state.folder(database) / "note"
    note.parent.mkdir()
    note.touch()

    supervisor.look(0, f'{{"level":"ERROR","msg":"{says}","error":"no space left on device"}}')

    assert not note.exists()
    assert supervisor.told[:3] == [
        "replicate.doubtful", "replicate.litestream_ended", "replicate.litestream_started",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "says",
    [
        '"msg":"monitor error","error":"replica sync: connection refused"',
        '"msg":"sync error","error":"check database behind replica: get replica position: operation error S3"',
    ],
)
def test_trouble_with_the_replica_is_no_reason_for_a_full_copy(tmp_path: Path, answers: list, says: str) -> None:
    database = tmp_path / "postroom.db"
    prepare_database(database)
    supervisor = Scripted(database, tmp_path / "litestream.sock")

    assert supervisor.look(1, f'{{"level":"ERROR",{says}}}') == [None]

    assert supervisor.told == []


class Replicating:
    """``infra.replicate`` on a folder, and restores from it."""

    def __init__(self, folder: Path) -> None:
        self.database, self.socket = folder / "postroom.db", folder / "litestream.sock"
        self.environment = {
            "POSTROOM_DB": str(self.database),
            "POSTROOM_REPLICA_URL": f"file://{folder}/replica",
            "POSTROOM_LITESTREAM_SOCKET": str(self.socket),
        }
        prepare_database(self.database)
        self.writer = open_connection(self.database)
        self.process: Process | None = None
        self.start()

    def start(self) -> None:
        if self.process is not None:
            self.process.close()
        self.process = Process(sys.executable, *command("litestream")[1:], environment=self.environment)
        self.sync()

    def sync(self) -> None:
        until(lambda: synced(self.socket, self.database), "everything in the replica")

    def litestream(self) -> list[int]:
        return children(self.process.pid)

    @property
    def prefix(self) -> str:
        return json.loads((self.database.parent / "replica" / "lease.json").read_text())["place"]["prefix"]

    def write(self, key: str) -> None:
        with transaction(self.writer):
            meta.put(self.writer, key, "x" * 9000)

    def make_the_log_long(self) -> None:
        for number in range(20):
            self.write(f"before {number}")
        self.sync()

    def begin_the_log_anew(self) -> None:
        """As happens without readers: the end of the log is in the file only."""
        self.write("at the end of the old log")
        rows(self.writer, "PRAGMA wal_checkpoint(PASSIVE)")
        self.write("at the beginning of the new one")

    def restored(self) -> list[tuple]:
        self.sync()
        copy = self.database.with_name("copy.db")
        done = subprocess.run(
            [sys.executable, "-m", "infra.restore", "--output", copy],
            cwd=ROOT, env=ENVIRONMENT | self.environment, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        conn = open_connection(copy, readonly=True)
        found = rows(conn, "SELECT * FROM meta ORDER BY key")
        conn.close()
        return found

    def live(self) -> list[tuple]:
        return rows(self.writer, "SELECT * FROM meta ORDER BY key")

    def close(self) -> None:
        self.process.close()
        self.writer.close()


@pytest.fixture
def replicating(tmp_path: Path) -> Iterator[Replicating]:
    found = Replicating(tmp_path)
    yield found
    found.close()


def test_a_killed_litestream_is_followed_by_another_under_a_new_prefix(replicating: Replicating) -> None:
    replicating.make_the_log_long()
    first, (child,) = replicating.prefix, replicating.litestream()
    os.kill(child, signal.SIGKILL)
    replicating.process.wait_for("replicate.litestream_ended")
    replicating.begin_the_log_anew()
    until(lambda: [pid for pid in replicating.litestream() if pid != child], "another Litestream")

    assert replicating.restored() == replicating.live()
    assert replicating.prefix != first


def test_a_kill_of_everything_is_followed_by_a_full_copy(replicating: Replicating) -> None:
    replicating.make_the_log_long()
    first = replicating.prefix
    for pid in (*replicating.litestream(), replicating.process.pid):
        os.kill(pid, signal.SIGKILL)
    replicating.process.end()
    replicating.begin_the_log_anew()
    replicating.start()

    assert replicating.restored() == replicating.live()
    assert replicating.prefix != first


def test_a_good_stop_beside_a_writer_is_followed_by_a_full_copy(replicating: Replicating) -> None:
    replicating.make_the_log_long()
    first = replicating.prefix
    assert replicating.process.stop(signal.SIGTERM)[0] == 0
    replicating.begin_the_log_anew()
    replicating.start()

    assert replicating.restored() == replicating.live()
    assert replicating.prefix != first


def test_another_litestream_starts_when_the_bucket_is_back(replicating: Replicating, tmp_path: Path) -> None:
    replicating.sync()
    (child,) = replicating.litestream()
    (tmp_path / "replica").rename(tmp_path / "away")
    (tmp_path / "replica").touch()
    os.kill(child, signal.SIGKILL)
    assert replicating.process is not None
    replicating.process.wait_for("replicate.waiting")
    replicating.write("meanwhile")
    (tmp_path / "replica").unlink()
    (tmp_path / "away").rename(tmp_path / "replica")

    assert replicating.restored() == replicating.live()


@pytest.mark.parametrize("kilobytes", [1, 100])
def test_after_a_good_stop_of_everything_litestream_goes_on_under_the_same_prefix(
    replicating: Replicating, kilobytes: int
) -> None:
    replicating.make_the_log_long()
    first = replicating.prefix
    replicating.writer.close()
    assert replicating.process.stop(signal.SIGTERM)[0] == 0
    replicating.writer = open_connection(replicating.database)
    for number in range(kilobytes):  # a log that is shorter than the old one, or longer
        with transaction(replicating.writer):
            meta.put(replicating.writer, f"meanwhile {number}", "y" * 1000)
    replicating.start()

    assert replicating.restored() == replicating.live()
    assert replicating.prefix == first


def synced(socket: Path, database: Path) -> bool:
    """Whether Litestream says that everything is in the replica."""
    try:
        asyncio.run(sync(socket, database, 2.0))
    except NotReplicated:
        return False
    return True


def children(pid: int) -> list[int]:
    """The processes whose parent is *pid*."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def test_a_missing_setting_is_named() -> None:
    process = Process(sys.executable, "-m", "infra.replicate", environment={"POSTROOM_DB": "x.db"})
    try:
        (refused,) = process.wait_for("replicate.refused")
        assert "POSTROOM_REPLICA_URL is not set" in refused["reason"]
        assert process.end() == 78
    finally:
        process.close()
