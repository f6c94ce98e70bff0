"""A Litestream that runs is no proof that it replicates."""

import http.server
import json
import os
import signal
import socketserver
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.replicate import Keeper, sync
from shared.db import meta
from shared.db.connection import open_connection, transaction
from shared.db.migrate import migrate
from tests.infra.processes import Process
from tests.infra.test_litestream import command, until

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
            status, text = queue.pop(0) if queue else (200, "{}")
            self.send_response(status)
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


def test_what_it_cannot_read_is_brought_into_the_file_at_the_second_look(tmp_path: Path, answers: list) -> None:
    database = tmp_path / "postroom.db"
    migrate(database)
    writer = open_connection(database)  # keeps the WAL alive, as the functions do
    with transaction(writer):
        for number in range(300):
            meta.put(writer, f"key {number}", "x" * 1000)
    before = pages_in_file(database)
    keeper = Keeper([], database, tmp_path / "litestream.sock")

    answers += [(500, json.dumps({"error": CANT_READ}))] * 2
    assert CANT_READ in (keeper.look() or "")
    assert pages_in_file(database) == before  # once may be chance
    keeper.look()

    assert pages_in_file(database) > before + 50
    assert keeper.look() is None
    writer.close()


def test_a_replica_that_is_away_is_nothing_to_mend(tmp_path: Path, answers: list) -> None:
    database = tmp_path / "postroom.db"
    migrate(database)
    writer = open_connection(database)
    with transaction(writer):
        meta.put(writer, "key", "x" * 100_000)
    before = pages_in_file(database)
    keeper = Keeper([], database, tmp_path / "litestream.sock")

    answers += [(500, '{"error": "replica sync: dial tcp: connection refused"}')] * 3
    for _ in range(3):
        keeper.look()

    assert pages_in_file(database) == before
    writer.close()


def test_one_that_does_not_answer_is_a_reason_and_no_crash(tmp_path: Path) -> None:
    assert sync(tmp_path / "nobody.sock", tmp_path / "x.db", 1.0) == "litestream does not answer (FileNotFoundError)"


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
        until(lambda: sync(socket, database, 2.0) is None, "the first sync")
        (child,) = children(process.pid)
        os.kill(child, signal.SIGKILL)
        until(lambda: [pid for pid in children(process.pid) if pid != child], "another Litestream")
        writer = open_connection(database)
        with transaction(writer):
            meta.put(writer, "after", "the kill")
        writer.close()
        until(lambda: sync(socket, database, 2.0) is None, "a sync after the kill")
    finally:
        process.close()


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
