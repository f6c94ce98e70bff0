"""A Litestream that runs is no proof that it replicates."""

import asyncio
import http.server
import json
import os
import shlex
import signal
import socketserver
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra import notes
from infra.lease import Lease, owner_of
from infra.processes import spawn
from infra.replicate import Keeper
from shared.bucket import FolderStore
from shared.db import meta
from shared.db.connection import open_connection, transaction
from shared.db.migrate import migrate
from shared.errors import NotReplicated
from shared.replication import sync
from tests.infra.processes import Process
from tests.infra.test_litestream import command, until

ENVIRONMENT = {"PATH": os.environ["PATH"]}
CANT_READ = "sync database: db sync: sync: write ltx from db: read database page 136: EOF"


class _Unix(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


@pytest.fixture
def answers(tmp_path: Path) -> Iterator[list[tuple[int, str]]]:
    """What a Litestream on ``tmp_path/litestream.sock`` answers next; 200 when there is nothing left."""
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
    """A keeper of a Litestream whose answers are written down; what it told."""

    def __init__(self, database: Path, socket: Path) -> None:
        self.told: list[str] = []
        self._database, self._socket = database, socket
        self._again = asyncio.Event()

    def _tell(self, event: str, **_: object) -> None:
        self.told.append(event)
        if event == "replicate.litestream_started":
            self._again.set()

    def look(self, times: int, says: str = "starting") -> list[str | None]:
        """Look at a Litestream that says *says* when it starts; return when what is begun anew runs again."""
        argv = ["sh", "-c", f"echo {shlex.quote(says)}; exec sleep 60"]

        async def look() -> list[str | None]:
            heard = asyncio.Event()
            keeper = Keeper(
                argv, environment=ENVIRONMENT, database=self._database, control=self._socket,
                lease=lease_of(self._database), tell=self._tell, on_line=lambda _: heard.set(),
            )  # fmt: skip
            keeper._process = await spawn(argv, environment=ENVIRONMENT)
            keeping = asyncio.create_task(keeper._keep(keeper._process))
            await asyncio.wait_for(heard.wait(), 10)
            found = [await keeper.look() for _ in range(times)]
            if {"replicate.mending", "replicate.doubtful"} & {*self.told}:
                await asyncio.wait_for(self._again.wait(), 10)
            keeping.cancel()
            keeper._process.kill()
            await keeper._process.wait()
            return found

        return asyncio.run(look())


def lease_of(database: Path) -> Lease:
    lease = Lease(FolderStore(database.parent / "replica"), owner_of(database.with_name("owner"), database))
    lease._take(lambda _: None)
    return lease


def test_what_it_cannot_read_is_brought_into_the_file_at_the_second_look(tmp_path: Path, answers: list) -> None:
    database = tmp_path / "postroom.db"
    migrate(database)
    writer = open_connection(database)  # keeps the WAL alive, as the functions do
    with transaction(writer):
        for number in range(300):
            meta.put(writer, f"key {number}", "x" * 1000)
    before = pages_in_file(database)
    keeper = Scripted(database, tmp_path / "litestream.sock")

    answers += [(500, json.dumps({"error": CANT_READ}))] * 3
    assert CANT_READ in (keeper.look(1)[0] or "")
    assert pages_in_file(database) == before  # once may be chance
    keeper.look(2)

    assert pages_in_file(database) > before + 50
    assert keeper.told == [
        "replicate.behind", "replicate.behind", "replicate.mending", "replicate.litestream_ended",
        "replicate.litestream_started",
    ]  # fmt: skip
    writer.close()


def test_a_replica_that_is_away_is_nothing_to_mend(tmp_path: Path, answers: list) -> None:
    database = tmp_path / "postroom.db"
    migrate(database)
    writer = open_connection(database)
    with transaction(writer):
        meta.put(writer, "key", "x" * 100_000)
    before = pages_in_file(database)
    keeper = Scripted(database, tmp_path / "litestream.sock")

    answers += [(500, '{"error": "replica sync: dial tcp: connection refused"}')] * 3
    keeper.look(4)

    assert pages_in_file(database) == before
    assert keeper.told == ["replicate.behind", "replicate.caught_up"]
    writer.close()


@pytest.mark.parametrize("says", ["sync error", "disk full - compaction paused"])
def test_after_trouble_of_its_own_it_begins_with_a_whole_copy(tmp_path: Path, answers: list, says: str) -> None:
    database = tmp_path / "postroom.db"
    migrate(database)
    keeper, note = Scripted(database, tmp_path / "litestream.sock"), notes.folder(database) / "note"
    note.parent.mkdir()
    note.touch()

    answers += [(500, '{"error": "replica sync: dial tcp: connection refused"}')]
    keeper.look(2, f'{{"level":"ERROR","msg":"{says}","error":"no space left on device"}}')

    assert not note.exists()
    assert keeper.told == [
        "replicate.behind", "replicate.caught_up", "replicate.doubtful", "replicate.litestream_ended",
        "replicate.litestream_started",
    ]  # fmt: skip


def test_trouble_with_the_replica_is_no_reason_for_a_whole_copy(tmp_path: Path, answers: list) -> None:
    database = tmp_path / "postroom.db"
    migrate(database)
    keeper = Scripted(database, tmp_path / "litestream.sock")

    assert keeper.look(1, '{"level":"ERROR","msg":"monitor error","error":"replica sync: connection refused"}') == [
        None
    ]

    assert keeper.told == []


def test_litestream_killed_is_started_again_and_goes_on(tmp_path: Path) -> None:
    database, socket = tmp_path / "postroom.db", tmp_path / "litestream.sock"
    migrate(database)
    environment = {
        "POSTROOM_DB": str(database),
        "POSTROOM_REPLICA_URL": f"file://{tmp_path}/replica",
        "POSTROOM_LITESTREAM_SOCKET": str(socket),
    }
    process = Process(sys.executable, *command("litestream")[1:], environment=environment)
    try:
        until(lambda: synced(socket, database), "the first sync")
        (child,) = children(process.pid)
        note = notes.folder(database) / "note"
        note.touch()
        os.kill(child, signal.SIGKILL)
        until(lambda: [pid for pid in children(process.pid) if pid != child], "another Litestream")
        writer = open_connection(database)
        with transaction(writer):
            meta.put(writer, "after", "the kill")
        writer.close()
        until(lambda: synced(socket, database), "a sync after the kill")
        assert not note.exists(), "it began with a whole copy"
    finally:
        process.close()


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
def test_its_notes_of_what_is_sent_are_believed_after_an_end_in_good_order_only(
    tmp_path: Path, is_killed: bool
) -> None:
    database, socket = tmp_path / "postroom.db", tmp_path / "litestream.sock"
    migrate(database)
    environment = {
        "POSTROOM_DB": str(database),
        "POSTROOM_REPLICA_URL": f"file://{tmp_path}/replica",
        "POSTROOM_LITESTREAM_SOCKET": str(socket),
    }
    note = notes.folder(database) / "note"
    process = Process(sys.executable, *command("litestream")[1:], environment=environment)
    try:
        until(lambda: synced(socket, database), "the first sync")
        note.touch()
        if is_killed:
            for pid in (*children(process.pid), process.pid):
                os.kill(pid, signal.SIGKILL)
            process.end()
        else:
            assert process.stop(signal.SIGTERM)[0] == 0
    finally:
        process.close()
    again = Process(sys.executable, *command("litestream")[1:], environment=environment)
    try:
        until(lambda: synced(socket, database), "the first sync of the second")
        assert note.exists() != is_killed
    finally:
        again.close()


def synced(socket: Path, database: Path) -> bool:
    """Whether Litestream says that all is in the replica."""
    try:
        asyncio.run(sync(socket, database, 2.0))
    except NotReplicated:
        return False
    return True


def children(pid: int) -> list[int]:
    """The processes whose parent is *pid*."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def test_without_its_settings_it_says_which_is_missing() -> None:
    process = Process(sys.executable, "-m", "infra.replicate", environment={"POSTROOM_DB": "x.db"})
    try:
        (refused,) = process.wait_for("replicate.refused")
        assert "POSTROOM_REPLICA_URL is not set" in refused["reason"]
        assert process.end() == 78
    finally:
        process.close()
