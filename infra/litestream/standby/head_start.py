"""Begins the full copy of a takeover while the other host's lease runs out, so that nothing waits for it afterwards.

When the lease was not renewed for half of its length, the warm copy is cloned to the database's path, under an epoch of
its own, and Litestream begins to copy it to a prefix of its own. Nobody reads that prefix, and no function opens the
file, before the lease record names it. That happens only if the lease became ours and the bucket has nothing that the
clone lacks; so what the other host had acknowledged is in it. If the lease was renewed after all, it is removed again.

Until then a mark beside the file says that it counts for nothing: after a crash the next start removes both.
"""

import asyncio
import contextlib
import shutil
from collections.abc import Mapping
from pathlib import Path

from infra.litestream.launch import LitestreamLaunch
from infra.litestream.lease import Lease, in_daemon_thread
from infra.litestream.prepare import Ready, Step, events_missing
from infra.litestream.restored_files import HistoryFacts, read_restored_facts, remove, write_epoch
from infra.litestream.standby.bucket_position import newest_position
from infra.litestream.standby.copies import damage_of
from infra.litestream.standby.follower import Follower
from infra.processes import kill_group
from shared.core import ids
from shared.core.errors import PostroomError
from shared.core.time import clock
from shared.db.engine.owner_only import replace_text
from shared.db.replica import lease_record
from shared.db.replica.lease_record import LeaseRecord, ReplicaPrefix, prefix_url
from shared.db.replica.litestream_program import program
from shared.db.replica.object_store import ObjectStore
from shared.db.replica.stored_objects import ReplicaObject

CONFIG_FILE = "infra/litestream.yml"
_DELETED_AT_ONCE = 500


class HeadStart:
    """A clone of the warm copy at the database's path, with its Litestream.

    Args:
        follower: whose copy is cloned; it goes on.
        control: Litestream's control socket.
    """

    def __init__(self, database: Path, url: str, control: Path, lease: Lease, follower: Follower) -> None:
        epoch = ids.new("epoch")
        self.prefix = ReplicaPrefix(epoch, epoch, lease.owner.id, clock.machine_ms())
        self.process: asyncio.subprocess.Process | None = None
        self._database = database
        self._url = url
        self._control = control
        self._lease = lease
        self._follower = follower
        self._txid = ""
        self._facts = HistoryFacts(None, 0)

    async def begin(self, environment: Mapping[str, str]) -> bool:
        """Clone the copy, and start Litestream; False where the copy lacks something, or is damaged."""
        txid = self._follower.txid
        if txid is None or not await self._is_level(txid):
            return False
        if not await asyncio.to_thread(self._clone, self._fresh):
            return False
        self._txid = txid
        launch = LitestreamLaunch(
            [program(), "replicate", "-config", CONFIG_FILE], environment, self._database, self._control
        )
        self.process = await launch.start(prefix_url(self._url, self.prefix.path))
        return True

    @property
    def _fresh(self) -> Path:
        return self._database.with_name(f"{self._database.name}.restoring")

    async def confirm(self, run_out: ReplicaObject | None) -> Ready | None:
        """Take the lease, and name our prefix in its record; None where the clone lacks something.

        Raises:
            LeaseHeld, StoreUnreachable
        """
        there = await self._lease.take(run_out=run_out)
        newest = await self._lease.ask_store(lambda store: lease_record.newest_prefix(store, there))
        if not await self._is_newest(newest):
            return None
        missing = events_missing(self._facts, there)
        await self._lease.begin_prefix(self.prefix, newest)
        mark_of(self._database).unlink(missing_ok=True)
        return Ready(prefix_url(self._url, self.prefix.path), Step.RESTORE, self._txid, events_missing=missing)

    async def abandon(self) -> None:
        """End Litestream, and remove the clone, and what was copied."""
        if self.process is not None and self.process.returncode is None:
            kill_group(self.process.pid)
            await self.process.wait()
        await asyncio.to_thread(_remove_unconfirmed, self._database)
        await asyncio.to_thread(remove, self._fresh)  # half a clone, on a disk that may be full
        with contextlib.suppress(PostroomError):  # what stays costs storage, and nothing reads it
            await self._lease.ask_store(self._remove_files)

    async def _is_newest(self, newest: ReplicaPrefix | None) -> bool:
        is_alive = self.process is not None and self.process.returncode is None
        is_same = newest is not None and newest.path == self._follower.prefix.path
        return is_alive and is_same and await self._is_level(self._txid)

    async def _is_level(self, txid: str) -> bool:
        prefix, store = self._follower.prefix, self._lease.store
        return await in_daemon_thread(lambda: newest_position(store, prefix, txid)) == txid

    def _clone(self, fresh: Path) -> bool:
        """Put a clone at the database's path.

        The follower may write meanwhile: then the bucket has a newer commit, and :meth:`confirm` refuses the clone.
        """
        remove(fresh)
        shutil.copyfile(self._follower.copy, fresh)
        if damage_of(fresh) is not None:
            remove(fresh)
            return False
        self._facts = read_restored_facts(fresh, self._follower.url)
        write_epoch(fresh, self.prefix.path)
        remove(self._database)
        replace_text(mark_of(self._database), self.prefix.path)
        fresh.replace(self._database)
        return True

    def _remove_files(self, store: ObjectStore) -> None:
        while names := store.names(self.prefix.key(""), limit=_DELETED_AT_ONCE):
            for name in names:
                store.delete(name)


def mark_of(database: Path) -> Path:
    """The mark: the file beside it is a clone that the lease record does not name."""
    return database.with_name(f"{database.name}-unconfirmed")


def clear_unconfirmed(database: Path, there: LeaseRecord | None) -> bool:
    """Remove a clone that a crash has left; whether there was one. One that the lease record names is the database."""
    try:
        prefix = mark_of(database).read_text().strip()
    except FileNotFoundError:
        return False
    if there is not None and there.current.path == prefix:
        mark_of(database).unlink()
        return False
    _remove_unconfirmed(database)
    return True


def _remove_unconfirmed(database: Path) -> None:
    if mark_of(database).exists():
        remove(database)
        with contextlib.suppress(FileNotFoundError):
            mark_of(database).unlink()  # last: until here the file counts for nothing
