"""Supervisors of Litestream: in this process, of scripts in its place, and ``infra.replicate`` of the real one."""

import asyncio
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from infra.litestream.lease import Lease
from infra.litestream.lease_owner import owner_of
from infra.litestream.replica_settings import LEASE_MS
from infra.litestream.standstill import LookPace
from infra.litestream.supervisor import LitestreamSupervisor
from infra.processes import spawn
from shared.core.errors import NotReplicated
from shared.db.engine import meta
from shared.db.engine.connection import open_connection, rows, transaction
from shared.db.replica.folder_store import FolderStore
from shared.db.replica.sync import sync
from shared.roster.new_database import prepare_database
from tests.infra.litestream.test_litestream import command
from tests.infra.processes import ROOT, Process, until

ENVIRONMENT = {"PATH": os.environ["PATH"]}
UNTIL_STOPPED = 'trap "$0" TERM; echo up; while :; do sleep 0.01; done'


class Scripted:
    """A supervisor of a Litestream whose answers are scripted, and the events that it reported."""

    def __init__(self, database: Path) -> None:
        self.told: list[str] = []
        self._database = database
        self._again = asyncio.Event()

    def _tell(self, event: str, **_: object) -> None:
        self.told.append(event)
        if event == "replicate.litestream_started":
            self._again.set()

    def look(self, times: int, says: str = "starting") -> list[str | None]:
        """Look at a Litestream that prints *says* at its start; return when another Litestream runs."""
        argv = ["sh", "-c", f"echo {shlex.quote(says)}; exec sleep 60"]

        async def look() -> list[str | None]:
            heard = asyncio.Event()
            pace = LookPace(every_s=3600, behind_s=3600)  # no look but those of the test
            supervisor = self._supervisor(argv, on_line=lambda _: heard.set(), pace=pace)
            await supervisor.start(await spawn(argv, environment=ENVIRONMENT))
            await asyncio.wait_for(heard.wait(), 60)
            found = [await supervisor.look() for _ in range(times)]
            if {"replicate.mending", "replicate.doubtful"} & {*self.told}:
                await asyncio.wait_for(self._again.wait(), 60)
            await supervisor.stop()
            return found

        return asyncio.run(look())

    def look_for_ever(self, is_over: Callable[[], bool]) -> None:
        """Supervise at its own pace, which has an hour between two looks, until *is_over*."""

        async def go_on() -> None:
            supervisor = self._supervisor(["sleep", "60"], pace=LookPace(every_s=3600))
            await supervisor.start(await spawn(["sleep", "60"], environment=ENVIRONMENT))
            async with asyncio.timeout(60):
                while not is_over():  # noqa: ASYNC110 - a thread removes the files
                    await asyncio.sleep(0.01)
            await supervisor.stop()

        asyncio.run(go_on())

    def _supervisor(self, argv: list[str], **options: Any) -> LitestreamSupervisor:
        lease = lease_of(self._database)
        lease._write(lambda there: there.with_full_copy(there.current, None))  # else it asks Litestream for one
        return LitestreamSupervisor(
            argv, replica=f"file://{self._database.parent}/replica", environment=ENVIRONMENT,
            database=self._database, control=self._database.with_name("litestream.sock"), lease=lease,
            report=self._tell, **options,
        )  # fmt: skip


def lease_of(database: Path, ttl_ms: int = LEASE_MS) -> Lease:
    lease = Lease(FolderStore(database.parent / "replica"), owner_of(database.with_name("owner"), database), ttl_ms)
    lease._take(lambda _: None)
    return lease


class Started:
    """A supervisor of a shell script in the place of Litestream, started; it is stopped at the end of the block."""

    def __init__(self, database: Path, script: str, *words: str, ttl_ms: int = LEASE_MS, **options: Any) -> None:
        self.said: asyncio.Queue[str] = asyncio.Queue()
        self.supervisor = LitestreamSupervisor(
            ["sh", "-c", script, *words], replica=f"file://{database.parent}/replica", environment=ENVIRONMENT,
            database=database, control=database.with_name("l.sock"), lease=lease_of(database, ttl_ms),
            report=lambda *_, **__: None, on_line=self.said.put_nowait, **options,
        )  # fmt: skip

    async def until(self, line: str) -> None:
        async with asyncio.timeout(60):
            while await self.said.get() != line:
                pass

    async def __aenter__(self) -> "Started":
        await self.supervisor.start()
        await self.until("up")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.supervisor.stop()


class Replicating:
    """``infra.replicate`` on a folder, and restores from it."""

    def __init__(self, folder: Path) -> None:
        self.database, self.socket = folder / "postroom.db", folder / "litestream.sock"
        self.environment = {
            "POSTROOM_DB": str(self.database),
            "POSTROOM_REPLICA_URL": f"file://{folder}/replica",
            "POSTROOM_LITESTREAM_SOCKET": str(self.socket),
        }
        prepare_database(self.database)
        self.writer = open_connection(self.database)
        self.process: Process | None = None
        self.start()

    def start(self) -> None:
        if self.process is not None:
            self.process.close()
        self.process = Process(sys.executable, *command("litestream")[1:], environment=self.environment)
        self.sync()

    def sync(self) -> None:
        until(lambda: synced(self.socket, self.database), "everything in the replica")

    def litestream(self) -> list[int]:
        return children(self.process.pid)

    @property
    def prefix(self) -> str:
        return json.loads((self.database.parent / "replica" / "lease.json").read_text())["place"]["prefix"]

    def write(self, key: str) -> None:
        with transaction(self.writer):
            meta.put(self.writer, key, "x" * 9000)

    def make_the_log_long(self) -> None:
        for number in range(20):
            self.write(f"before {number}")
        self.sync()

    def begin_the_log_anew(self) -> None:
        """As happens without readers: the end of the log is in the file only."""
        self.write("at the end of the old log")
        rows(self.writer, "PRAGMA wal_checkpoint(PASSIVE)")
        self.write("at the beginning of the new one")

    def restored(self) -> list[tuple]:
        self.sync()
        copy = self.database.with_name("copy.db")
        done = subprocess.run(
            [sys.executable, "-m", "infra.restore", "--output", copy],
            cwd=ROOT, env=ENVIRONMENT | self.environment, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        conn = open_connection(copy, readonly=True)
        found = rows(conn, "SELECT * FROM meta ORDER BY key")
        conn.close()
        return found

    def live(self) -> list[tuple]:
        return rows(self.writer, "SELECT * FROM meta ORDER BY key")

    def close(self) -> None:
        self.process.close()
        self.writer.close()


def synced(socket: Path, database: Path) -> bool:
    """Whether Litestream says that everything is in the replica."""
    try:
        asyncio.run(sync(socket, database, 2.0))
    except NotReplicated:
        return False
    return True


def children(pid: int) -> list[int]:
    """The processes whose parent is *pid*."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]
