"""Production's processes, started as in production, and the means to break them.

A process that ends is started again at once, as a container is. Its listening socket stays with the test, so callers
meanwhile wait or are cut off, as behind a load balancer.
"""

import contextlib
import json
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import apsw
import pytest

from shared.db.engine.connection import open_connection, transaction
from shared.db.roster import chats
from shared.roster.new_database import prepare_database
from tests.e2e import conftest as e2e
from tests.e2e.crash.people import SECRET, TOKEN, Platform
from tests.support import NOW, make_agent, make_chat, wire

T = TypeVar("T")

PATIENCE = 3  # a busy machine, such as a disk that takes a second for an fsync, is no fault of ours

ROOT = Path(__file__).parents[3]
AGENT = Path(__file__).with_name("agent.py")
BUCKET = "postroom-crash"
TICKS = {"dispatch": "1s", "deliver": "1s", "sweep": "500ms", "recurrence": "60s"}
WRITER = "ingest-writer"
FUNCTIONS = ("ingest", "dispatch", "deliver", "sweep", "recurrence")
AWS = {
    "AWS_ACCESS_KEY_ID": "crash",
    "AWS_SECRET_ACCESS_KEY": "crash",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
}
# Short waits make a run short; their meaning is the same.
QUICK = {
    "POSTROOM_TICK_SECRET": "tick-secret",
    "POSTROOM_RETRY_BASE_MS": "100",
    "POSTROOM_RETRY_CAP_MS": "2000",
    "POSTROOM_MAX_ATTEMPTS": "20",
    "POSTROOM_LEASE_MS": "5000",
    "POSTROOM_PACE_SENDS": "false",  # the fakes limit nothing here
    "POSTROOM_SENDER_LIMIT": "0",  # one person writes as fast as the machine allows
    "POSTROOM_SENDER_BYTES": "0",
    "POSTROOM_CHAT_LIMIT": "0",
    "POSTROOM_LEASH": "off",  # the agents write a journal outside their folders
    "TELEGRAM_BOT_TOKEN": TOKEN,
    "TELEGRAM_WEBHOOK_SECRET": SECRET,
}


def until(what: str, look: Callable[[], T | None], timeout_s: float = 20.0) -> T:
    """The first true result of *look*; fails with *what* when *timeout_s* is long over."""
    return e2e.until(what, look, timeout_s * PATIENCE)


class Child:
    """One program that is started again when it ends; its lines go to ``NAME.log``."""

    def __init__(self, name: str, argv: Sequence[Any], environment: dict[str, str], log: Path, fds: Sequence[int] = ()):
        self.name = name
        self.argv = [str(word) for word in argv]
        self.environment = environment
        self.log = log
        self._fds = fds
        self._limits: dict[int, tuple[int, int]] = {}
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self._is_up = threading.Event()
        self._restarter: threading.Thread | None = None

    def start(self) -> None:
        self._stopping.clear()
        self._process = self._spawn()
        self._restarter = threading.Thread(target=self._restart, daemon=True)
        self._restarter.start()

    def _spawn(self) -> subprocess.Popen[bytes]:
        # A pipe, not the file: the tests make a full disk by a limit on the size of files.
        self.starts += 1
        process = subprocess.Popen(
            self.argv,
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **self.environment},
            pass_fds=self._fds,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for limit, values in self._limits.items():
            resource.prlimit(process.pid, limit, values)
        threading.Thread(target=self._follow, args=(process,), daemon=True).start()
        return process

    def _follow(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout, self.log.open("ab") as log:
            for line in process.stdout:
                log.write(line)
                log.flush()
                if b'"function.listening"' in line or b'"s3.ready"' in line:
                    self._is_up.set()

    def _restart(self) -> None:
        while self._process is not None:
            self._process.wait()
            if self._stopping.wait(0.1):
                return
            self._process = self._spawn()

    def is_up(self) -> bool:
        """Whether it has reported that it listens."""
        return self._is_up.is_set()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """Kill it with -9; it is started again."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def limit(self, kind: int, soft: int) -> None:
        """Set a resource limit for it and its forks, and for each restart."""
        hard = resource.prlimit(self.pid, kind)[1]
        self._limits[kind] = (soft, hard)
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(self.pid, kind, (soft, hard))  # first: a later fork inherits it
        for pid in self.forks():
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, kind, (soft, hard))

    def forks(self) -> list[int]:
        """Its children that run the same program, such as the process in which ingest stores."""
        return [pid for pid in _children(self.pid) if _command(pid) == _command(self.pid)]

    def stop(self, how: int = signal.SIGTERM, patience_s: float = 20.0) -> int:
        """End it for good; the exit code."""
        if self._process is None:
            return 0
        self._stopping.set()
        while True:  # it may have been started again just now
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(how)
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self._process.wait(patience_s)
                break
            how = signal.SIGKILL
        if self._restarter is not None:
            self._restarter.join(5)
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
        self._process = None
        return code

    def said(self, event: str) -> list[dict[str, Any]]:
        """The log lines of this event."""
        if not self.log.exists():
            return []
        found = []
        for line in self.log.read_bytes().splitlines():
            with contextlib.suppress(ValueError):
                facts = json.loads(line)
                if isinstance(facts, dict) and facts.get("event") == event:
                    found.append(facts)
        return found


class Post:
    """One host of Postroom in *folder*, with the people of *platform*.

    Args:
        replica: ``None``, ``"file"`` or ``"s3"``.
        clock_file: holds the milliseconds by which the clock of the functions is off; see ``jumping``.
        s3_port: the port that Litestream uses, if not that of the S3 itself.
        ticks: whether there is a ticker.
        data: the folder of the database and its replica, if not *folder* with the logs and records.
    """

    def __init__(
        self,
        folder: Path,
        platform: Platform,
        *,
        replica: str | None = None,
        functions: Sequence[str] = FUNCTIONS,
        environment: dict[str, str] | None = None,
        clock_file: Path | None = None,
        s3_port: int | None = None,
        ticks: bool = True,
        data: Path | None = None,
    ) -> None:
        self.folder = folder
        self.platform = platform
        self.data = data or folder
        self.db = self.data / "postroom.db"
        self.record = folder / "record"
        self.record.mkdir(parents=True)
        self.environment = {
            "POSTROOM_DB": str(self.db),
            "POSTROOM_RUN_DIR": str(folder / "run"),
            "POSTROOM_AGENTS_DIR": str(self.data / "agents"),
            "TELEGRAM_API_BASE": platform.url,
            **QUICK,
            **(environment or {}),
        }
        self._sockets = {name: socket.create_server(("127.0.0.1", 0), backlog=512) for name in functions}
        self.children: dict[str, Child] = {}
        self.replica_url = ""
        self._clock_file = clock_file
        if replica is not None:
            self._add_replica(replica, s3_port)
        for name in functions:
            self._add_function(name)
        every = {name: TICKS[name.partition("-")[0]] for name in functions if name.partition("-")[0] in TICKS}
        if ticks and every:
            pauses = [f"{name.replace('-', '_')}={pause}@{self.port(name)}" for name, pause in every.items()]
            self._add("ticker", [sys.executable, "-m", "infra.ticker", *pauses])

    def _add(self, name: str, argv: Sequence[Any], fds: Sequence[int] = (), **environment: str) -> Child:
        child = Child(name, argv, {**self.environment, **environment}, self.folder / f"{name}.log", fds)
        self.children[name] = child
        return child

    def _add_function(self, name: str) -> None:
        self._add(name, self.argv(name), [self._sockets[name].fileno()])

    def argv(self, name: str) -> list[str]:
        """The command line of a function; ``dispatch-2`` is a second dispatch on the same database."""
        runner = ["-m", "infra.runner"]
        if self._clock_file is not None:
            runner = ["-m", "tests.e2e.crash.jumping", str(self._clock_file)]
        return [
            sys.executable,
            *runner,
            name.partition("-")[0],
            "--fd",
            str(self._sockets[name].fileno()),
            "--timeout",
            "10s",
        ]

    def _add_replica(self, kind: str, s3_port: int | None) -> None:
        if kind == "s3":
            self._sockets["s3"] = socket.create_server(("127.0.0.1", 0), backlog=128)
            fd = self._sockets["s3"].fileno()
            argv = [
                sys.executable,
                "-m",
                "emulator.storage.s3_server",
                "--fd",
                fd,
                "--dir",
                self.folder / "s3",
                "--bucket",
                BUCKET,
            ]
            self._add("s3", argv, [fd])
            port = s3_port or self.port("s3")
            self.replica_url = f"s3://{BUCKET}/db?endpoint=http://127.0.0.1:{port}"
        else:
            self.replica_url = f"file://{self.data}/replica"
        self.litestream_socket = self.folder / "ls.sock"
        self._add(
            "litestream",
            [sys.executable, "-m", "infra.replicate"],
            (),
            POSTROOM_REPLICA_URL=self.replica_url,
            POSTROOM_LITESTREAM_SOCKET=str(self.litestream_socket),
            **AWS,
        )

    def __getitem__(self, name: str) -> Child:
        return self.children[name]

    def port(self, name: str) -> int:
        return int(self._sockets[name].getsockname()[1])

    def prepare(self, agents: dict[str, int], places: dict[str, str]) -> None:
        """Make the database with *agents* (name to concurrency) and *places* (chat to agent)."""
        prepare_agents(self.db, self.record, agents, places)

    def start(self) -> None:
        """Start all that is not up; return when every function answers."""
        for child in self.children.values():
            if child._process is None:
                child.start()
        for child in self.children.values():
            if child.name in self._sockets:
                until(f"{child.name} to listen", child.is_up, 30)

    def stop(self, *names: str, how: int = signal.SIGTERM) -> dict[str, int]:
        """End these, or all in the reverse order of their start; the exit codes."""
        chosen = [self.children[name] for name in names or reversed(list(self.children))]
        for child in chosen:
            if child._process is not None:
                child._stopping.set()
                with contextlib.suppress(ProcessLookupError):
                    if child.name not in ("litestream", "s3"):
                        child._process.send_signal(how)
        return {child.name: child.stop(how) for child in chosen}

    def close(self) -> None:
        """End every process, however the test ended."""
        self.stop(how=signal.SIGKILL)
        _end_orphans(self.folder)
        for sock in self._sockets.values():
            sock.close()

    def kill(self, name: str) -> None:
        """Kill it with -9; ``litestream`` is Litestream itself, not its supervisor.

        ``ingest-writer`` is the process in which ingest stores; ingest lives on, and starts another.
        """
        if name in ("litestream", WRITER):
            for pid in _children(self[name].pid) if name == "litestream" else self["ingest"].forks():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        else:
            self[name].kill()

    def kill_everything(self) -> None:
        """Kill all at once: no process of ours survives."""
        victims = [pid for child in self.children.values() for pid in (child.pid, *_children(child.pid))]
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def query(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Rows of the live database."""
        return query(self.db, sql, *parameters)

    def open_work(self) -> list[tuple[Any, ...]]:
        """Messages and responses that are not finished, by status; a note for an agent may wait for its next turn."""
        return self.query(
            """
            SELECT 'message', status, count(*), min(last_error) FROM messages
             WHERE status IN ('pending', 'processing') AND NOT (kind = 'system' AND trigger = 0) GROUP BY status
             UNION ALL
            SELECT 'response', status, count(*), min(last_error) FROM responses
             WHERE status IN ('pending', 'delivering') GROUP BY status
            """
        )

    def settle(self, timeout_s: float = 60.0) -> None:
        """Return when every message and every response is finished."""
        deadline = time.monotonic() + timeout_s * PATIENCE
        while left := self.open_work():
            if time.monotonic() > deadline:
                pytest.fail(f"not finished after {timeout_s * PATIENCE:g} s: {left}\n{self.last_words()}")
            time.sleep(0.1)

    def last_words(self, lines: int = 8) -> str:
        """The end of each log."""
        said = []
        for path in sorted(self.folder.glob("*.log")):
            tail = path.read_text("utf-8", "replace").splitlines()[-lines:]
            short = (line if len(line) < 600 else f"{line[:200]} … {line[-390:]}" for line in tail)
            said.append(f"--- {path.name}\n" + "\n".join(short))
        return "\n".join(said)


def prepare_agents(db: Path, record: Path, agents: dict[str, int], places: dict[str, str]) -> None:
    """Make a database with *agents* (name to concurrency), which write to *record*, and *places* (chat to agent)."""
    prepare_database(db)
    conn = open_connection(db)
    try:
        for agent, concurrency in agents.items():
            command = [sys.executable, "-I", "-S", str(AGENT), str(record), str(concurrency)]
            make_agent(conn, agent, provider="command", config={"command": command}, concurrency=concurrency)
        for chat, agent in places.items():
            chat_id = make_chat(conn, chat)
            set_open(conn, chat_id)
            wire(conn, chat_id, agent)
    finally:
        conn.close()


def set_open(conn: apsw.Connection, chat_id: int) -> None:
    """Let everybody write there: these tests do not break access."""
    with transaction(conn):
        chats.update(conn, chat_id, sender_policy="public", now_ms=NOW)


def query(path: Path, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """Rows of a database."""
    conn = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        conn.set_busy_timeout(30_000)
        return conn.execute(sql, parameters).fetchall()
    finally:
        conn.close()


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _command(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def _end_orphans(folder: Path) -> None:
    """End programs whose parent was killed; the folder in the command line or environment identifies them."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if os.fsencode(f"{folder}/") in (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes():
                    os.kill(int(entry.name), signal.SIGKILL)


@contextlib.contextmanager
def during(*children: Child, how: int = signal.SIGSTOP) -> Iterator[None]:
    """Stop these during the block."""
    pids = [child.pid for child in children]
    for pid in pids:
        os.kill(pid, how)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def lines(
    chats: Sequence[str], count: int, plan: Callable[[random.Random], str], dice: random.Random
) -> dict[str, Any]:
    """*count* texts for each chat; each says what its turns do."""
    return {chat: [f"c{chat} {number:04} | {plan(dice)}" for number in range(count)] for chat in chats}
