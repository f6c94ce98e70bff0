"""``emulator run`` as a process of a test."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import apsw

from emulator.base.hints import STATE
from emulator.base.state import StateFolder, find_running
from emulator.cli import client
from emulator.cli.client import RestClient
from emulator.storage import due
from emulator.testing.clock import EmulatorClock
from emulator.testing.platform import FakePlatform
from emulator.testing.waiting import LIMIT_S, wait_until
from shared.db.engine.connection import open_connection

READY_LIMIT_S = 120.0
_STOP_LIMIT_S = 90.0
_LAST_LINES = 20
_MILLISECOND = timedelta(milliseconds=1)


class RunningEmulator:
    """An emulator that a test has started, on ports of its own.

    Attributes:
        project: the folder with ``template.yaml``.
        state: its state folder, with all that it keeps.
        output: the file with all that it prints.
    """

    def __init__(self, project: Path, state: Path, process: "subprocess.Popen[str]", output: Path) -> None:
        self.project = project
        self.state = StateFolder(state)
        self.process = process
        self.output = output

    @classmethod
    def launch(
        cls,
        project: Path,
        *arguments: str,
        state: Path | None = None,
        output: Path | None = None,
        python: Sequence[str] = (),
        environ: Mapping[str, str] = os.environ,
    ) -> Self:
        """Start it, and do not wait.

        Args:
            arguments: further ones of ``emulator run``.
            state: None: the default folder of the project.
            output: None: beside the state folder.
            python: options of the interpreter.
        """
        folder = state or project / STATE
        output = output or folder.with_name(f"{folder.name}-output.txt")
        named = [] if state is None else ["--state", str(state)]
        with output.open("w") as stream:
            process = subprocess.Popen(
                [sys.executable, *python, "-m", "emulator", "run", "--port", "0", *named, *arguments],
                cwd=project,
                env=dict(environ),
                stdout=stream,
                stderr=subprocess.STDOUT,
                text=True,
            )
        return cls(project, folder, process, output)

    def wait_ready(self, limit_s: float = READY_LIMIT_S) -> None:
        """Wait until it is ready.

        Raises:
            AssertionError: it ended, or was not ready in time; with its last lines.
        """
        wait_until(lambda: self._is_ready() or self.process.poll() is not None, limit_s=limit_s, what="ready")
        if self.process.poll() is not None:
            lines = self.output.read_text().splitlines()[-_LAST_LINES:]
            raise AssertionError("\n".join([f"the emulator ended with {self.process.returncode}:", *lines]))

    def stop(self, number: int = signal.SIGINT) -> int:
        """Stop it; returns its exit code. One that does not end is killed."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    @property
    def url(self) -> str:
        """The address in front of all functions: webhooks, ``/api``, and the page for operators at ``/``."""
        return str(self._urls["gateway"])

    @property
    def chat_page(self) -> str:
        """The address of the page on which a person is the people of both platforms."""
        return str(self._urls["chat"])

    @cached_property
    def telegram(self) -> FakePlatform:
        """The fake Telegram."""
        return self.platform("telegram")

    @cached_property
    def discord(self) -> FakePlatform:
        """The fake Discord."""
        return self.platform("discord")

    def platform(self, name: str) -> FakePlatform:
        """The fake platform of this name."""
        return FakePlatform(name, self.state)

    @cached_property
    def clock(self) -> EmulatorClock:
        """The one clock of its functions, schedules, fakes and rows."""
        return EmulatorClock(self.state)

    @property
    def api(self) -> RestClient:
        """Its REST API: ``emulator.api.get("agents")`` is ``GET /api/agents``."""
        return client.find(self.state.path, None)

    def command(self, *arguments: str) -> Any:
        """Run an ``emulator`` command about it, such as ``schedules list``; what its ``--json`` prints.

        Raises:
            AssertionError: it ended with another code than 0; with what it said.
        """
        argv = [sys.executable, "-m", "emulator", *arguments, "--state", str(self.state.path), "--json"]
        done = subprocess.run(argv, cwd=self.project, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise AssertionError(f"emulator {' '.join(arguments)} ended with {done.returncode}: {done.stderr}")
        return json.loads(done.stdout)

    def rows(self, sql: str, **parameters: Any) -> list[dict[str, Any]]:
        """What a SELECT finds in its database, which can't be written this way."""
        with closing(open_connection(self.state.database, readonly=True)) as conn:
            cursor = conn.cursor()
            cursor.row_trace = _named
            return list(cursor.execute(sql, parameters))

    def wait_for(self, sql: str, *, limit_s: float = LIMIT_S, **parameters: Any) -> list[dict[str, Any]]:
        """Wait until a SELECT finds rows, and return them.

        Raises:
            AssertionError: it found none within the limit.
        """
        return wait_until(lambda: self.rows(sql, **parameters), limit_s=limit_s, what=f"a row of {sql!r}")

    def wait_idle(self, *, limit_s: float = LIMIT_S) -> None:
        """Wait until no turn and no send is under way, and nothing is due that Postroom can do."""
        with closing(open_connection(self.state.database, readonly=True)) as conn:
            wait_until(
                lambda: due.is_idle(conn, now_ms=self.clock.now_ms()),
                limit_s=limit_s,
                what="the end of all that is due",
            )

    @contextmanager
    def fault(
        self,
        target: str,
        kind: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        delay: timedelta | None = None,
        method: str | None = None,
        chat: str | None = None,
        times: int | None = None,
        every: int | None = None,
        rate: float | None = None,
    ) -> Iterator[None]:
        """Let something fail meanwhile, as ``emulator fault add`` does: every call, unless an option names fewer.

        Args:
            target: ``telegram``, ``discord``, ``bucket`` … (:data:`emulator.base.faults.TARGETS`).
            kind: ``status``, ``delay``, ``drop`` … (:data:`emulator.base.faults.KINDS`).
            times: so many calls; every: each so-many-th; rate: so large a share of them, by chance.
        """
        given = {
            **{"kind": kind, "status": status, "retry_after": retry_after, "method": method, "chat": chat},
            **{"delay_ms": None if delay is None else delay // _MILLISECOND, "times": times, "rate": rate},
            "every": every or (1 if times is rate is None else None),
        }
        body = {name: value for name, value in given.items() if value is not None}
        added = client.ask_platforms(self.state.path, "POST", f"/control/{target}/faults", body)["fault"]
        try:
            yield
        finally:
            client.ask_platforms(self.state.path, "DELETE", f"/control/{target}/faults?id={added['id']}")

    def _is_ready(self) -> bool:
        return (find_running(self.state) or {}).get("pid") == self.process.pid

    @property
    def _urls(self) -> dict[str, str]:
        found: dict[str, str] = client.instance_in(self.state.path)["urls"]
        return found


def _named(cursor: apsw.Cursor, row: tuple[Any, ...]) -> dict[str, Any]:
    return {name: value for (name, *_), value in zip(cursor.get_description(), row, strict=True)}
