import http.server
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.roster.new_database import prepare_database
from tests.infra.litestream.machine import Machine
from tests.infra.litestream.supervised import Replicating


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


@pytest.fixture
def replicating(tmp_path: Path) -> Iterator[Replicating]:
    found = Replicating(tmp_path)
    yield found
    found.close()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A new database, before anything replicates it."""
    path = tmp_path / "postroom.db"
    prepare_database(path)
    return path


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file://{tmp_path}/replica"


@pytest.fixture
def one(tmp_path: Path, url: str) -> Machine:
    """A machine that has replicated three events, and was stopped."""
    machine = Machine(tmp_path / "one", url)
    machine.work(machine.start(), 3)
    machine.stop()
    return machine
