"""The whole system on real processes: a running emulator, and the means to talk to it and to break it."""

import http.client
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import apsw
import pytest

from emulator.testing import wait_until

T = TypeVar("T")

ROOT = Path(__file__).parents[2]


def until(what: str, look: Callable[[], T | None], timeout_s: float = 90.0) -> T:
    """The first true result of *look*; fails with *what* after *timeout_s*."""
    return wait_until(look, limit_s=timeout_s, what=what)


API_TOKEN = "of-the-tests"  # a host without a leash for programs wants one


class System:
    """One emulator in its own state folder.

    Args:
        project: the sources that it runs, with their ``.env``.
        environment: more variables of its shell.
    """

    def __init__(self, state: Path, project: Path = ROOT, environment: Mapping[str, str] | None = None) -> None:
        self.state = state
        self._environment = environment or {}
        self._project = project
        self._process: subprocess.Popen[bytes] | None = None
        self.log = state.with_suffix(".log")

    def start(self) -> None:
        """Start it; return when every part is up."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "emulator", "run", "--state", self.state, "--port", "0", "--log", "json"],
                cwd=self._project,
                env={**os.environ, "POSTROOM_API_TOKEN": API_TOKEN, **self._environment},
                stdout=log,
                stderr=log,
            )
        process = self._process

        def ready() -> bool:
            if process.poll() is not None:
                pytest.fail(f"the emulator ended with {process.returncode}:\n{self.log.read_text()[-3000:]}")
            try:
                return self.get("/_emulator/ready")[0] == 200
            except (OSError, KeyError, ValueError):
                return False

        until("the emulator", ready, 120)

    def stop(self) -> int:
        """Stop it as Ctrl-C does; the exit code."""
        if self._process is None:
            return 0
        self._process.send_signal(signal.SIGINT)
        code = self._process.wait(90)
        self._process = None
        return code

    def kill(self) -> None:
        """Kill the supervisor with -9; the other processes must end by themselves."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(60)
            self._process = None

    @property
    def urls(self) -> dict[str, str]:
        """The addresses of the parts."""
        urls: dict[str, str] = json.loads((self.state / "instance.json").read_text())["urls"]
        return urls

    def get(self, path: str, base: str = "gateway") -> tuple[int, Any]:
        """Status and JSON of a GET."""
        return self._request(self.urls[base] + path)

    def post(
        self, path: str, body: Any, base: str = "gateway", headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Status and JSON (or text) of a POST; *body* is sent as JSON unless it is bytes."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self._request(self.urls[base] + path, data, headers)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The answer of the API, which must be a success."""
        data = json.dumps({} if body is None else body).encode() if method != "GET" else None
        status, answer = self._request(self.urls["gateway"] + path, data, method=method)
        assert status < 300, (method, path, body, status, answer)
        return answer

    def _request(
        self, url: str, data: bytes | None = None, headers: dict[str, str] | None = None, method: str | None = None
    ) -> tuple[int, Any]:
        kind = {"Content-Type": "application/json", "Authorization": f"Bearer {API_TOKEN}"}
        request = urllib.request.Request(url, data, {**kind, **(headers or {})}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                status, text = answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                status, text = error.code, error.read().decode()
        except http.client.HTTPException as error:  # the process was killed while it answered
            raise ConnectionError(repr(error)) from error
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text

    def pids(self) -> dict[str, int]:
        """The process ids of the functions."""
        return {each["name"]: each["pid"] for each in self.get("/_emulator/status")[1]["functions"]}

    def query(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Rows of the live database."""
        conn = apsw.Connection(str(self.state / "postroom.db"), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            conn.set_busy_timeout(5000)
            return conn.execute(sql, parameters).fetchall()
        finally:
            conn.close()

    def api_message(self, text: str) -> str:
        """Post a message; its id."""
        status, body = self.post("/api/message", {"message": text})
        assert status == 200, body
        return str(body["messageId"])


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    """A fresh system with short retries, up when the test begins."""
    running = System(tmp_path / "state")
    try:
        running.start()
        yield running
    finally:
        running.stop()
