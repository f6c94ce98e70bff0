"""One follower: ``litestream restore -f`` of a prefix into a folder of its own, while it runs a copy of the prefix.

A follower that has ended can't go on: another one restores again. Only one that ended at SIGTERM with 0 left a whole
copy.
"""

import asyncio
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from infra.litestream.replica_settings import follow_ms_from
from infra.litestream.standby.decisions import CopyFacts, FollowerProgress
from infra.processes import follow, kill_group, spawn
from shared.db.engine.owner_only import UMASK, make_folder
from shared.db.replica import sync_permit
from shared.db.replica.lease_record import ReplicaPrefix
from shared.db.replica.litestream_program import environment_for, follow_command

_STOP_LIMIT_S = 5.0


class Follower:
    """A process that follows one prefix.

    Args:
        url: of the prefix.
        folder: for the copy alone; emptied at the start.
        on_line: called with each line that Litestream prints.
    """

    def __init__(
        self,
        prefix: ReplicaPrefix,
        url: str,
        folder: Path,
        environment: Mapping[str, str],
        on_line: Callable[[str], None],
    ) -> None:
        self.prefix = prefix
        self.url = url
        self.copy = folder / "copy.db"
        self.progress = FollowerProgress()
        self.since_s = sync_permit.now_s()
        self.last_line = ""
        self._folder = folder
        self._environment = environment
        self._on_line = on_line
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to restore, and then to follow."""
        shutil.rmtree(self._folder, ignore_errors=True)
        make_folder(self._folder)
        self._process = await spawn(
            follow_command(self.url, self.copy, follow_ms_from(self._environment)),
            environment=environment_for(self._environment),
            umask=UMASK,
        )
        if self._process.stdout is not None:
            self._reading = asyncio.create_task(follow(self._process.stdout, self._read_line))

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process and self._process.returncode is None else None

    @property
    def txid(self) -> str | None:
        """The position of the copy, sixteen hexadecimal digits; None until it is whole."""
        try:
            return self.copy.with_name(f"{self.copy.name}-txid").read_text().strip() or None
        except OSError:
            return None

    def look(self, newest: str, now_s: float, *, listing_s: float = 0.0) -> None:
        """Note how far it has come; *newest* is the newest position in the bucket, which took *listing_s* to list."""
        self.progress = self.progress.saw(self.txid, newest, now_s, listing_s=listing_s)

    def facts(self, now_s: float, still_s: float) -> CopyFacts:
        """What the decisions want to know."""
        return CopyFacts(self.prefix.path, self.txid, self.pid is None, self.progress.stands_still(now_s, still_s))

    async def end(self) -> bool:
        """End the follower; whether its copy is whole."""
        if self._process is None or self._process.returncode is not None:
            return False
        self._process.terminate()
        try:
            return await asyncio.wait_for(self._process.wait(), _STOP_LIMIT_S) == 0
        except TimeoutError:
            await self._kill()
            return False

    async def discard(self) -> None:
        """End it at once, and remove its copy."""
        await self._kill()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            kill_group(self._process.pid)
            await self._process.wait()

    def _read_line(self, line: str) -> None:
        self.last_line = line[:500]
        self._on_line(line)
