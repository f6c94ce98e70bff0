"""Hosts of a pair on one bucket, with every process of production, and the platform that calls them."""

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from emulator.proving.child import ROOT, Child, children_of, end_orphans, until
from emulator.proving.host import AWS, QUICK, prepare_agents
from emulator.proving.platform import Platform, Written
from emulator.proving.witnesses import query
from shared.db.engine.connection import open_connection, transaction
from tests.e2e.child_logs import said
from tests.support import NOW

FUNCTIONS = ("ingest", "dispatch", "deliver", "sweep", "recurrence")
TICKS = {"dispatch": "1s", "deliver": "1s", "sweep": "1s"}
LEASE_S = 5


class PairPlatform(Platform):
    """Delivers to the host that answers, as a load balancer would; notes when each update was accepted."""

    def __init__(self) -> None:
        super().__init__()
        self.ports: list[int] = []  # the newest host last
        self.accepted: list[tuple[float, int]] = []  # the instant, and the host's port

    def deliver(self, written: Written, port: int, *, patience_s: float = 5.0) -> tuple[int, dict[str, str]]:
        for each in reversed(self.ports):
            status, found = super().deliver(written, each, patience_s=patience_s)
            if status == 200:
                self.accepted.append((time.monotonic(), each))
            if status:
                return status, found
        return 0, {}


class Host:
    """One host of a pair: ``infra.standby``, the functions with ``--standby``, a ticker. No process is started again.

    Args:
        record: the folder of the agents' journal, one for all hosts.
        arguments: of functions, as their units have them, but that the port is another.
    """

    def __init__(
        self,
        folder: Path,
        platform: PairPlatform,
        replica: str,
        record: Path,
        arguments: Mapping[str, str] | None = None,
        **environment: str,
    ) -> None:
        self.folder = folder
        self.platform = platform
        self.record = record
        self.db = folder / "postroom.db"
        folder.mkdir(exist_ok=True)
        record.mkdir(exist_ok=True)
        self.environment = {
            **AWS,
            **QUICK,
            "TELEGRAM_API_BASE": platform.url,
            "POSTROOM_DB": str(self.db),
            "POSTROOM_RUN_DIR": str(folder / "run"),
            "POSTROOM_AGENTS_DIR": str(folder / "agents"),
            "POSTROOM_REPLICA_URL": replica,
            "POSTROOM_LITESTREAM_SOCKET": str(folder / "ls.sock"),
            "POSTROOM_REPLICA_LEASE": f"{LEASE_S}s",
            "POSTROOM_DURABILITY": "replicated",
            **environment,
        }
        self._sockets = {name: _bound() for name in FUNCTIONS}
        self.ports = {name: sock.getsockname()[1] for name, sock in self._sockets.items()}
        self.children: dict[str, Child] = {}
        self._add("standby", ["-m", "infra.standby", "--port", "0", "--set-aside"])
        for name, sock in self._sockets.items():
            words = (arguments or {}).get(name, "--port 0 --timeout 10s")
            options = re.sub(r"--port \d+", f"--fd {sock.fileno()}", words).split()
            argv = ["-m", "infra.runner", name, *options, "--standby"]
            self._add(name, argv, [sock.fileno()])
        ticks = [f"{name}={every}@{self.ports[name]}" for name, every in TICKS.items()]
        self._add("ticker", ["-m", "infra.ticker", *ticks])

    @classmethod
    def returned(cls, stopped: "Host") -> "Host":
        """The same machine, started again: with its folder and all that is in it."""
        for log in stopped.folder.glob("*.log"):
            log.rename(log.with_suffix(".before"))
        return cls(stopped.folder, stopped.platform, stopped.environment["POSTROOM_REPLICA_URL"], stopped.record)

    def _add(self, name: str, argv: Sequence[Any], fds: Sequence[int] = ()) -> None:
        log = self.folder / f"{name}.log"
        self.children[name] = Child(name, [sys.executable, *argv], self.environment, log, fds)

    def __getitem__(self, name: str) -> Child:
        return self.children[name]

    def prepare(self, agents: dict[str, int], places: dict[str, str]) -> None:
        """Make the first database of the pair, with *agents* (name to concurrency) and *places* (chat to agent)."""
        prepare_agents(self.db, self.record, agents, places)

    def fill(self, megabytes: int) -> None:
        """Give the database a history of so many MB, which compresses by half."""
        conn = open_connection(self.db)
        try:
            for _ in range(megabytes):
                with transaction(conn):
                    conn.execute(
                        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 250)"
                        " INSERT INTO agent_messages (agent_id, role, channel, sender, message_id, content, created_at)"
                        " SELECT 'retired', 'user', 'telegram', 'P', 'old', hex(randomblob(1900)), ? FROM n",
                        (NOW,),
                    ).fetchall()
        finally:
            conn.close()

    def start(self) -> None:
        """Start every process; return at once. The functions wait for ``infra.standby``."""
        for child in self.children.values():
            child.start()
            child.end_restarts()  # no restart
        for sock in self._sockets.values():
            sock.close()  # with the last process the port refuses connections

    def wait_active(self) -> None:
        until(f"{self.folder.name} to serve", lambda: all(self[name].is_up() for name in FUNCTIONS), 60)
        until("the replica to be whole", lambda: said(self["standby"], "replicate.begun"), 60)

    def wait_following(self) -> None:
        until(f"{self.folder.name} to follow", lambda: said(self["standby"], "standby.following"), 60)
        for name in FUNCTIONS:
            until(f"{name} to stand by", lambda name=name: said(self[name], "function.standing_by"), 60)

    def pids(self) -> list[int]:
        """Every process of this host, the functions and ``infra.standby`` before what they started."""
        alive = [child.pid for child in self.children.values() if child.runs]
        return [pid for parent in alive for pid in (parent, *children_of(parent))]

    def signal(self, number: int) -> None:
        """Send a signal to every process of the host at once."""
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def stop(self) -> None:
        """Stop in the order of systemd: the functions, and last ``infra.standby``, which gives the lease back."""
        for name in ("ticker", *FUNCTIONS, "standby"):
            self[name].stop()

    def lose_disk(self) -> None:
        """The disk goes with the host."""
        for path in (*self.folder.glob("postroom.db*"), *self.folder.glob(".postroom.db*")):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def close(self) -> None:
        self.signal(signal.SIGKILL)
        for child in self.children.values():
            child.stop(signal.SIGKILL)
        end_orphans(self.folder)

    def status(self) -> tuple[int, dict[str, Any]]:
        """The status code and the JSON of ``/healthz`` of ``infra.standby``."""
        (status,) = until("the status", lambda: said(self["standby"], "standby.status"))
        connection = http.client.HTTPConnection("127.0.0.1", status["port"], timeout=10)
        try:
            connection.request("GET", "/healthz")
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def query(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return query(self.db, sql, *parameters)

    def open_work(self) -> list[tuple[Any, ...]]:
        return self.query(
            "SELECT 'message', status, count(*) FROM messages WHERE status IN ('pending', 'processing') GROUP BY status"
            " UNION ALL"
            " SELECT 'response', status, count(*) FROM responses WHERE status IN ('pending', 'delivering')"
            " GROUP BY status"
        )

    def last_words(self, lines: int = 12) -> str:
        shown = []
        for path in sorted(self.folder.glob("*.log")):
            tail = [line[:600] for line in path.read_text("utf-8", "replace").splitlines()[-lines:]]
            shown.append(f"--- {self.folder.name}/{path.name}\n" + "\n".join(tail))
        return "\n".join(shown)


def _bound() -> socket.socket:
    """A socket with a free port, on which nobody listens yet."""
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    return sock


@contextlib.contextmanager
def bucket(folder: Path) -> Iterator[str]:
    """The emulator's S3; yields the URL of a replica in it."""
    argv = [sys.executable, "-m", "emulator.storage.s3_server", "--port", "0", "--dir", folder, "--bucket", "pair"]
    environment = {"PATH": os.environ["PATH"], **AWS, "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        [str(word) for word in argv], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert process.stdout is not None
    port = json.loads(process.stdout.readline())["port"]
    reader = threading.Thread(target=process.stdout.read, daemon=True)
    reader.start()
    try:
        yield f"s3://pair/db?endpoint=http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stdout.close()
