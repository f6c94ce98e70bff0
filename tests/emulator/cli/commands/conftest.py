"""The commands against the real ``api``, in its own process, over a database of the test module's own."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import pytest
from typer.testing import CliRunner, Result

from emulator.base import ports
from emulator.cli.app import app
from shared.db.engine.connection import open_connection
from shared.roster.new_database import prepare_database
from tests.emulator.harness import ROOT, fetch, wait_until


@dataclass(frozen=True)
class Postroom:
    """A running ``api`` at *url*, and its database."""

    url: str
    db: Path
    conn: apsw.Connection
    run_dir: Path

    def run(self, *arguments: str, code: int = 0, **more: Any) -> Result:
        """Run ``emulator ARGUMENTS``; it must end with *code*."""
        done = CliRunner().invoke(app, [*arguments, "--url", self.url], **more)
        assert done.exit_code == code, f"{done.exit_code}: {done.stdout}{done.stderr}{done.exception!r}"
        return done

    def json(self, *arguments: str) -> Any:
        """The output with ``--json``, parsed."""
        return json.loads(self.run(*arguments, "--json").stdout)

    def refused(self, *arguments: str, code: int) -> str:
        """The error on stderr, which must be the only output."""
        done = self.run(*arguments, code=code)
        assert done.stdout == ""
        assert done.stderr.startswith("error: ")
        return done.stderr

    def column(self, sql: str, **parameters: Any) -> list[Any]:
        """The first column of the rows."""
        return [row[0] for row in self.conn.execute(sql, parameters).fetchall()]


def serve(folder: Path, **environment: str) -> "tuple[subprocess.Popen[bytes], Postroom]":
    """An ``api`` over a new database in *folder*."""
    prepare_database(folder / "p.db")
    listening = ports.listen(0)
    own = {
        "POSTROOM_DB": str(folder / "p.db"),
        "POSTROOM_RUN_DIR": tempfile.mkdtemp(prefix="pr-", dir="/tmp"),  # short enough for sockets
        "POSTROOM_AGENTS_DIR": str(folder / "agents"),
    }
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("POSTROOM_")}
    with listening.sock as sock, (folder / "api.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "infra.runner", "api", "--fd", str(sock.fileno())],
            pass_fds=[sock.fileno()],
            cwd=ROOT,
            env=inherited | own | environment,
            stdout=log,
            stderr=log,
        )
    url = f"http://127.0.0.1:{listening.port}"
    wait_until(lambda: _answers(url, process, folder / "api.log"), what="the api")
    return process, Postroom(url, folder / "p.db", open_connection(folder / "p.db"), Path(own["POSTROOM_RUN_DIR"]))


def _answers(url: str, process: "subprocess.Popen[bytes]", log: Path) -> bool:
    assert process.poll() is None, log.read_text()
    try:
        return fetch(url)[0] == 200
    except OSError:
        return False


def stop(process: "subprocess.Popen[bytes]", served: Postroom) -> None:
    """End what ``serve`` started, and remove the folder of its sockets."""
    served.conn.close()
    process.terminate()
    process.wait(60)
    shutil.rmtree(served.run_dir)


@pytest.fixture(scope="module")
def postroom(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postroom]:
    """One Postroom for all tests of a file."""
    process, served = serve(tmp_path_factory.mktemp("postroom"))
    yield served
    stop(process, served)


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the variables of the machine that runs the tests."""
    for name in ("POSTROOM_URL", "POSTROOM_API_TOKEN", "POSTROOM_CONFIG"):
        monkeypatch.delenv(name, raising=False)
