"""A copy of the project to run and to break, and a handle on a running emulator.

The copy is what makes a reload testable: nobody edits the real sources while other tests import them.
"""

import http.client
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from emulator.testing.running import READY_LIMIT_S, RunningEmulator
from emulator.testing.waiting import wait_until
from tests.liveness import is_alive

__all__ = ["READY_LIMIT_S", "wait_until"]  # which have moved there

ROOT = Path(__file__).parents[2]
PARTS = ("functions", "shared", "infra", "emulator")


def wait_gone(pids: list[int]) -> None:
    """Wait until all of them have ended; on a busy machine a killed process takes a while."""
    wait_until(lambda: not any(map(is_alive, pids)), what="the end of every child")


class Emulator(RunningEmulator):
    """``emulator run`` in a project folder of its own, ready when it has said so."""

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The output so far, as JSON, without an unfinished last line."""
        whole, _, _ = self.output.read_text().rpartition("\n")
        return [json.loads(line) for line in whole.splitlines() if line.startswith("{")]

    def said(self, part: str) -> bool:
        return part in self.output.read_text()

    @property
    def instance(self) -> dict[str, Any]:
        """``instance.json``."""
        found: dict[str, Any] = json.loads((self.project / ".emulator" / "instance.json").read_text())
        return found

    def get(self, path: str, *, base: str | None = None, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
        """Status and body."""
        return fetch((base or self.url) + path, headers=headers)

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.get("/_emulator/status")[1])
        return found

    def _is_ready(self) -> bool:
        return self.said('"emulator.ready"')

    def pids(self) -> list[int]:
        """The process ids of the emulator and of all its descendants."""
        return descendants(self.process.pid)


def fetch(
    url: str, *, method: str = "GET", body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, bytes]:
    """One request, without proxies."""
    host, _, path = url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host, timeout=60)
    try:
        connection.request(method, f"/{path}", body=body, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def descendants(pid: int) -> list[int]:
    """The process and all its descendants."""
    found = [pid]
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return found
    for child in children:
        found += descendants(int(child))
    return found


def clean_environment() -> dict[str, str]:
    """The environment of the tests, without variables that change the code or the options of what a test starts."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTEST_ADDOPTS")}


def copy_project(target: Path) -> Path:
    """A copy of the sources."""
    target.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        shutil.copytree(ROOT / part, target / part, ignore=shutil.ignore_patterns("*.tmp"))
    shutil.copy(ROOT / "template.yaml", target)
    return target


def command(project: Path, *arguments: str, limit_s: float = 180, **more: Any) -> "subprocess.CompletedProcess[str]":
    """Run ``emulator ARGUMENTS`` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "emulator", *arguments],
        cwd=project,
        env=clean_environment() | more.pop("env", {}),
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
        **more,
    )


def launch(project: Path, *arguments: str, python: Sequence[str] = ()) -> Emulator:
    """``emulator run`` in the background, on any free port, with the options *python* of the interpreter."""
    output = project / "output.txt"
    return Emulator.launch(project, *arguments, output=output, python=python, environ=clean_environment())
