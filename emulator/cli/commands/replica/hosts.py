"""Where a drill takes place: an emulator on this machine, or a production host. Both can kill and revive the writer."""

import contextlib
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from emulator.base import errors
from emulator.base.hints import STATE
from emulator.base.shell import of_shell
from emulator.base.state import StateFolder, find_running
from emulator.cli import client

_BACK_LIMIT_S = 120.0
_KILL_LIMIT_S = 15.0  # the emulator itself gives up after 10
_MARGIN_S = 10.0
_PRODUCTION = ("POSTROOM_DB", "POSTROOM_REPLICA_URL", "POSTROOM_LITESTREAM_SOCKET")


class _NoAnswer(errors.NotReady):
    """Nothing is known of what was asked."""


class DrillHost(Protocol):
    """A host whose writer can be killed.

    Attributes:
        chat_url: of the fake platforms; None where there are none.
        environ: with what reaches the bucket.
    """

    is_emulator: bool
    database: Path
    replica: str
    socket: Path
    chat_url: str | None
    environ: Mapping[str, str]

    def kill(self) -> str:
        """Kill the writer; what was killed, in words."""

    def revive(self) -> str:
        """Bring everything back, and wait until it works."""


@dataclass
class EmulatorHost:
    """An emulator on this machine, which keeps its functions dead until they are revived."""

    database: Path
    replica: str
    socket: Path
    chat_url: str | None
    environ: Mapping[str, str]
    gateway: str
    secret: str
    is_emulator: bool = True
    kill_limit_s: float = _KILL_LIMIT_S

    def kill(self) -> str:
        try:
            killed = self._ask("kill", self.kill_limit_s)
        except _NoAnswer:  # it may have killed all the same
            with contextlib.suppress(errors.NotReady):
                self.revive()
            raise
        return f"{len(killed['functions'])} functions and Litestream"

    def revive(self) -> str:
        return str(self._ask("revive", _BACK_LIMIT_S + _MARGIN_S)["replica"])

    def _ask(self, act: str, limit_s: float) -> Any:
        headers = {"Authorization": f"Bearer {self.secret}"}
        try:
            status, answer = client.post_json(self.gateway, f"/_emulator/drill/{act}", headers, limit_s=limit_s)
        except OSError as error:
            raise _NoAnswer(
                f"the emulator does not answer at {self.gateway} ({error}): is it running? If it is, it brings "
                f"everything back within a minute of a kill"
            ) from None
        if status != 200:
            raise errors.NotReady(f"the emulator did not {act} its writer: {answer.get('error', status)}")
        return answer


@dataclass
class ProductionHost:
    """This host, as its environment describes it. Its service manager restarts what dies."""

    database: Path
    replica: str
    socket: Path
    environ: Mapping[str, str]
    chat_url: str | None = None
    is_emulator: bool = False

    def kill(self) -> str:
        pids = users_of(self.database)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        if not pids:
            raise errors.NotReady(f"no process has {self.database} open: is Postroom running here, as this user?")
        return f"processes {', '.join(map(str, pids))}"

    def revive(self) -> str:
        deadline = time.monotonic() + _BACK_LIMIT_S
        while time.monotonic() < deadline:
            if users_of(self.database) and self.socket.with_name(f"{self.socket.name}.permit").exists():
                return ""
            time.sleep(0.2)
        raise errors.NotReady(
            f"nothing has restarted within {_BACK_LIMIT_S:.0f} s: start the functions and infra.replicate by hand now"
        )


def users_of(database: Path) -> list[int]:
    """The processes of this user, but for this one, that have the database open."""
    wanted, found = database.stat(), []
    for folder in Path("/proc").glob("[0-9]*"):
        pid = int(folder.name)
        try:
            opened = [each.stat() for each in (folder / "fd").iterdir()]
        except OSError:  # of another user, or it has just ended
            continue
        if pid != os.getpid() and any((each.st_dev, each.st_ino) == (wanted.st_dev, wanted.st_ino) for each in opened):
            found.append(pid)
    return sorted(found)


def find(state: Path | None, environ: Mapping[str, str]) -> DrillHost:
    """The emulator in the folder; without one, the production host whose settings are in *environ*.

    Raises:
        EmulatorError: there is neither.
    """
    is_production = state is None and all(map(environ.get, _PRODUCTION)) and "EMULATOR_STATE" not in environ
    if is_production and not find_running(StateFolder(STATE.resolve())):
        database, url, socket = (environ[name] for name in _PRODUCTION)
        return ProductionHost(Path(database).absolute(), url, Path(socket), environ)
    folder = StateFolder((state or Path(environ.get("EMULATOR_STATE", STATE))).resolve())
    instance = client.instance_in(folder.path)
    variables = instance["environment"]
    return EmulatorHost(
        database=folder.database,
        replica=variables["EMULATOR_REPLICA_URL"],
        socket=folder.run / "litestream.sock",
        chat_url=variables["EMULATOR_CHAT"],
        environ=of_shell(environ) | variables,
        gateway=instance["urls"]["gateway"],
        secret=variables["POSTROOM_TICK_SECRET"],
    )
