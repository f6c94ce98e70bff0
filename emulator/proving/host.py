"""One host of Postroom: production's processes, started as in production.

A process that ends is started again at once, as a container is. Its listening socket stays with the caller, so people
meanwhile wait or are cut off, as behind a load balancer.
"""

import contextlib
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from emulator.base.errors import Misconfigured, TimedOut
from emulator.base.faults import Fault, FaultBook
from emulator.proving.child import PATIENCE, ROOT, Child, children_of, end_orphans, until
from emulator.proving.platform import SECRET, TOKEN, Platform
from emulator.proving.witnesses import Witnesses, query, read_journal
from shared.conversation.alerts import faults_by_hand
from shared.core.time import clock
from shared.db.engine.connection import open_connection, transaction
from shared.db.roster import agents as roster
from shared.db.roster import chats
from shared.roster import wirings
from shared.roster.new_database import prepare_database

AGENT = Path(__file__).with_name("agent.py")
BUCKET = "postroom-proof"
TICKS = {"dispatch": "1s", "deliver": "1s", "sweep": "500ms", "recurrence": "60s"}
WRITER = "ingest-writer"
FUNCTIONS = ("ingest", "dispatch", "deliver", "sweep", "recurrence")
RESTORE_WAIT_S = 60
_LAST_LINES = 8
LEASE_S = 5  # of the replica, for which a host with a new disk waits
AWS = {
    "AWS_ACCESS_KEY_ID": "proof",
    "AWS_SECRET_ACCESS_KEY": "proof",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
}
# Short waits make a run short; their meaning is the same.
QUICK = {
    "POSTROOM_TICK_SECRET": "tick-secret",  # of processes that serve this machine for as long as the run lasts
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


class Stall:
    """For how long the count of what is open has not become smaller. Pure."""

    def __init__(self) -> None:
        self._least, self._since_s = sys.maxsize, 0.0

    def lasts_s(self, count: int, now_s: float) -> float:
        """By a count of *now_s*."""
        if count < self._least:
            self._least, self._since_s = count, now_s
        return now_s - self._since_s


class Post:
    """One host of Postroom in *folder*, with the people of *platform*.

    Args:
        replica: ``None``, ``"file"`` or ``"s3"``.
        runner: the module that serves a function, with its arguments.
        s3_port: the port that Litestream uses, if not that of the S3 itself.
        ticks: whether there is a ticker.
        data: the folder of the database and its replica, if not *folder* with the logs and records.
        durability: ``"replicated"``: what was accepted outlives the disk; see :meth:`lose_disk`.
    """

    def __init__(
        self,
        folder: Path,
        platform: Platform,
        *,
        replica: str | None = None,
        functions: Sequence[str] = FUNCTIONS,
        environment: dict[str, str] | None = None,
        runner: Sequence[Any] = ("infra.runner",),
        s3_port: int | None = None,
        ticks: bool = True,
        data: Path | None = None,
        durability: str | None = None,
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
        self.lost_disks_ns: list[int] = []
        self.replica_url = ""
        self._runner = runner
        if replica is not None:
            self._add_replica(replica, s3_port)
        if durability is not None:
            self.environment |= {
                **self._replica_environment(),
                "POSTROOM_DURABILITY": durability,
                "POSTROOM_REPLICA_LEASE": f"{LEASE_S}s",
            }
            self["litestream"].environment |= self.environment
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
        return [
            sys.executable,
            "-m",
            *map(str, self._runner),
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
            argv = ["-m", "emulator.storage.s3_server", "--fd", fd, "--dir", self.folder / "s3", "--bucket", BUCKET]
            (self.folder / "run").mkdir()
            argv += ["--faults", faults_by_hand.path_in(self.folder / "run")]
            s3 = self._add("s3", [sys.executable, *argv], [fd])
            self._faults = FaultBook(self.folder / "run", lambda: [s3.pid])
            port = s3_port or self.port("s3")
            self.replica_url = f"s3://{BUCKET}/db?endpoint=http://127.0.0.1:{port}"
        else:
            self.replica_url = f"file://{self.data}/replica"
        self.litestream_socket = self.folder / "ls.sock"
        self._add("litestream", [sys.executable, "-m", "infra.replicate"], (), **self._replica_environment())

    def _replica_environment(self) -> dict[str, str]:
        return {
            **AWS,
            "POSTROOM_REPLICA_URL": self.replica_url,
            "POSTROOM_LITESTREAM_SOCKET": str(self.litestream_socket),
        }

    @contextlib.contextmanager
    def bucket_fault(self, kind: str, **options: Any) -> Iterator[None]:
        """Let each request to S3 fail meanwhile, as ``emulator fault add bucket`` does."""
        added = self._faults.of["bucket"].add(Fault.parse("bucket", {"kind": kind, **options}))
        try:
            yield
        finally:
            self._faults.of["bucket"].lift(added.id)

    @contextlib.contextmanager
    def full_disk(self, room_bytes: int) -> Iterator[None]:
        """Let no function write a file beyond *room_bytes* meanwhile, and ingest none at all; the rest has room."""
        for name in FUNCTIONS:
            self[name].limit(resource.RLIMIT_FSIZE, 0 if name == "ingest" else room_bytes)
        try:
            yield
        finally:
            for name in FUNCTIONS:
                self[name].limit(resource.RLIMIT_FSIZE, resource.getrlimit(resource.RLIMIT_FSIZE)[0])

    def __getitem__(self, name: str) -> Child:
        return self.children[name]

    def port(self, name: str) -> int:
        return int(self._sockets[name].getsockname()[1])

    def prepare(self, agents: dict[str, int], places: dict[str, str], closed: Mapping[str, str] | None = None) -> None:
        """Make the database with *agents* (name to concurrency) and *places* (chat to agent).

        *closed*: chats in which a stranger is refused.
        """
        prepare_agents(self.db, self.record, agents, places, closed)

    def start(self) -> None:
        """Start all that is not up; return when every function answers."""
        for child in self.children.values():
            if not child.runs:
                child.start()
        for child in self.children.values():
            if child.name in self._sockets:
                until(f"{child.name} to listen", child.is_up, 30)

    def stop(self, *names: str, how: int = signal.SIGTERM) -> dict[str, int]:
        """End these, or all in the reverse order of their start; the exit codes."""
        chosen = [self.children[name] for name in names or reversed(list(self.children))]
        for child in chosen:
            if child.runs:
                child.end_restarts()
                with contextlib.suppress(ProcessLookupError):
                    if child.name not in ("litestream", "s3"):
                        os.kill(child.pid, how)
        return {child.name: child.stop(how) for child in chosen}

    def close(self) -> None:
        """End every process, however the test ended."""
        self.stop(how=signal.SIGKILL)
        end_orphans(self.folder)
        for sock in self._sockets.values():
            sock.close()

    def kill(self, name: str) -> None:
        """Kill it with -9; ``litestream`` is Litestream itself, not its supervisor.

        ``ingest-writer`` is the process in which ingest stores; ingest lives on, and starts another.
        """
        if name in ("litestream", WRITER):
            for pid in children_of(self[name].pid) if name == "litestream" else self["ingest"].forks():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        else:
            self[name].kill()

    def lose_disk(self) -> None:
        """Kill all at once, and lose the disk of the database; the functions start again from the replica alone.

        Raises:
            Misconfigured: the replica was not restored; with what ``infra.restore`` said.
        """
        children = [child for name, child in self.children.items() if name != "s3"]
        for child in children:
            child.end_restarts()
        self.kill_everything(but="s3")
        for child in children:
            child.stop(signal.SIGKILL)
        end_orphans(self.folder, but=self["s3"].pid)
        for path in (*self.data.glob("postroom.db*"), *self.data.glob(".postroom.db*")):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.lost_disks_ns.append(time.monotonic_ns())
        environment, wait = self["litestream"].environment, f"{RESTORE_WAIT_S}s"
        is_done, said = restore(environment, "--wait", wait, limit_s=4 * RESTORE_WAIT_S)
        with (self.folder / "restore.log").open("a") as log:
            log.write(said)
        if not is_done:
            prepare_database(self.db)  # an empty one: the ledger says what is lost
            raise Misconfigured(f"the replica was not restored: {said[-2000:]}")
        self.start()

    def kill_everything(self, *, but: str = "") -> None:
        """Kill all at once: no process of ours survives."""
        alive = [child for name, child in self.children.items() if name != but and child.runs]
        victims = [pid for child in alive for pid in (child.pid, *children_of(child.pid))]
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def query(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Rows of the live database."""
        return query(self.db, sql, *parameters)

    def witnesses(self) -> Witnesses:
        """What the rows, the platform and the agents say now."""
        written, sends = dict(self.platform.written), list(self.platform.sends)
        return Witnesses(self.db, written, sends, read_journal(self.record), tuple(self.lost_disks_ns))

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
        """Return when every message and every response is finished; a machine may be slow, as long as some of it ends.

        Raises:
            TimedOut: nothing has ended for *timeout_s*, and long after.
        """
        limit_s, stall = timeout_s * PATIENCE, Stall()
        while left := self.open_work():
            if stall.lasts_s(sum(count for _, _, count, _ in left), time.monotonic()) > limit_s:
                raise TimedOut(f"nothing has ended for {limit_s:g} s: {left}\n{self.last_words()}")
            time.sleep(0.1)

    def last_words(self) -> str:
        """The end of each log."""
        said = []
        for path in sorted(self.folder.glob("*.log")):
            tail = path.read_text("utf-8", "replace").splitlines()[-_LAST_LINES:]
            short = (line if len(line) < 600 else f"{line[:200]} … {line[-390:]}" for line in tail)
            said.append(f"--- {path.name}\n" + "\n".join(short))
        return "\n".join(said)


def restore(environment: Mapping[str, str], *options: str, limit_s: float) -> tuple[bool, str]:
    """Run ``infra.restore``: whether it restored the replica, and what it said."""
    argv = [sys.executable, "-m", "infra.restore", *options]
    whole = {"PATH": os.environ["PATH"], **environment}
    try:
        done = subprocess.run(argv, cwd=ROOT, env=whole, capture_output=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return False, f"it did not end within {limit_s:g} s\n"
    return done.returncode == 0, (done.stdout + done.stderr).decode(errors="replace")


def prepare_agents(
    db: Path,
    record: Path,
    agents: Mapping[str, int],
    places: Mapping[str, str],
    closed: Mapping[str, str] | None = None,
) -> None:
    """Make a database with *agents* (name to concurrency), which write to *record*, and *places* (chat to agent).

    *closed*: chats in which a stranger is refused.
    """
    prepare_database(db)
    now_ms = clock.now_ms()
    with contextlib.closing(open_connection(db)) as conn, transaction(conn):
        for agent, concurrency in agents.items():
            command = [sys.executable, "-I", "-S", str(AGENT), str(record), str(concurrency)]
            config = {"command": command}
            row = roster.Agent(agent, agent.title(), provider="command", config=config, concurrency=concurrency)
            roster.save(conn, row, now_ms=now_ms)
        for policy, chosen in (("public", places), ("strict", closed or {})):
            for chat, agent in chosen.items():
                chat_id = chats.ensure(conn, "telegram", chat, is_group=False, now_ms=now_ms).id
                chats.update(conn, chat_id, sender_policy=policy, now_ms=now_ms)
                wirings.connect(conn, chat_id, agent, {"ignored_message_policy": "drop"}, now_ms=now_ms)
