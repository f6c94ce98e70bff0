"""Keeps a warm copy of the newest prefix, by a follower; by a second one too while a newer prefix replaces the old one.

The old copy stays until the new one is whole. If the first host dies before, what it acknowledged may be only in the
old prefix; ``lease.json`` says which prefix counts.
"""

import asyncio
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import apsw

from infra.litestream.lease import in_daemon_thread
from infra.litestream.restored_files import remove
from infra.litestream.standby.bucket_position import newest_position
from infra.litestream.standby.decisions import STILL_S, CopyStep, next_copy_step
from infra.litestream.standby.follower import Follower
from shared.core import durability
from shared.core.errors import PostroomError
from shared.db.engine.connection import open_connection, scalar
from shared.db.replica import lease_record, sync_permit
from shared.db.replica.lease_record import LeaseRecord, ReplicaPrefix, prefix_url
from shared.db.replica.object_store import ObjectStore

_TEND_EVERY_S = 0.1  # whether a copy is whole
_LIST_EVERY_S = 5.0  # what the bucket has; each listing is paid for
_FIRST_BACKOFF_S, _LAST_BACKOFF_S = 1.0, 30.0
_CATCH_UP_S = 5.0  # at a takeover, more in a slow bucket: so long the follower may stay before the last position
_LOOK_S = 0.02


class WarmCopies:
    """The copies of one replica on a standby host.

    Args:
        url: of the replica.
        store: the objects there.
        folder: for the copies; whatever is in it is removed.
        report: called with the name of each event, and its facts.
        on_line: called with each line that a follower prints.
        still_s: how long a follower may make no progress while the bucket has newer commits.
    """

    def __init__(
        self,
        url: str,
        store: ObjectStore,
        folder: Path,
        environment: Mapping[str, str],
        report: Callable[..., None],
        on_line: Callable[[str], None],
        still_s: float = STILL_S,
    ) -> None:
        self.record: LeaseRecord | None = None  # the newest that was seen
        self.kept: Follower | None = None
        self.coming: Follower | None = None
        self.problem: str | None = None  # why nothing is known of the bucket, or why there is no copy
        self.stuck: str | None = None  # the last words of a follower that could not restore
        self._url = url
        self._store = store
        self._folder = folder
        self._environment = environment
        self._report = report
        self._on_line = on_line
        self._still_s = still_s
        self._number = 0
        self._keeping: asyncio.Task[None] | None = None
        self._backoff_s = _FIRST_BACKOFF_S
        self._begin_at_s = 0.0
        self._wanted: ReplicaPrefix | None = None

    def start(self) -> None:
        """Keep the copies from now on; no effect if that is done already."""
        if self._keeping is None or self._keeping.done():
            self._keeping = asyncio.create_task(self._keep())

    @property
    def is_usable(self) -> bool:
        """Whether the copy could be handed over: it is of the newest prefix, and its follower runs."""
        kept, wanted = self.kept, self._wanted
        return kept is not None and wanted is not None and kept.prefix.path == wanted.path and kept.pid is not None

    async def _stop(self) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)

    async def _keep(self) -> None:
        if self.kept is None and self.coming is None:
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
        listed_s, seen = -_LIST_EVERY_S, None
        while True:
            now_s = sync_permit.now_s()
            if now_s - listed_s >= _LIST_EVERY_S or self.record is not seen:
                listed_s, seen = now_s, self.record
                await self._ask_bucket()
            await self._tend(sync_permit.now_s())
            await asyncio.sleep(_TEND_EVERY_S)

    async def close(self) -> None:
        """End the followers, and remove their copies."""
        await self._stop()
        for follower in (self.kept, self.coming):
            if follower is not None:
                await follower.discard()
        self.kept = self.coming = None
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def hand_over(self, prefix: ReplicaPrefix, target: Path) -> str | None:
        """Put the copy of *prefix* at *target* when it has everything that the bucket has; its position.

        The lease must be ours, so that nothing is added to the prefix any more. None: there is no copy of this prefix,
        or it makes no progress; the log says why.
        """
        await self._stop()
        follower = self._of(prefix)
        reason = "there is no copy of this prefix yet" if follower is None else await self._take(follower, target)
        if follower is None or reason is not None:
            self._report("standby.restoring", replica=prefix_url(self._url, prefix.path), reason=reason)
            return None
        return follower.txid

    async def _take(self, follower: Follower, target: Path) -> str | None:
        """Wait until the copy is complete, end its follower, and move it; or return why the copy can't be used."""
        began_s = sync_permit.now_s()
        newest = await in_daemon_thread(lambda: newest_position(self._store, follower.prefix, follower.txid or ""))
        limit_s = _CATCH_UP_S + follower.progress.patience_s
        while (follower.txid or "") < newest:
            now_s = sync_permit.now_s()
            follower.look(newest, now_s)
            if follower.pid is None:
                return f"the follower ended: {follower.last_line}"
            if follower.txid is not None and now_s - max(began_s, follower.progress.moved_s) > limit_s:
                return f"the follower stays at {follower.txid}, and the bucket has {newest}"
            await asyncio.sleep(_LOOK_S)
        if not await follower.end():
            return f"the follower did not end in good order: {follower.last_line}"
        damage = await asyncio.to_thread(damage_of, follower.copy)
        if damage is not None:
            return f"the copy is damaged: {damage}"
        remove(target)  # a takeover that died may have left a log beside it, which SQLite would apply to this copy
        follower.copy.replace(target)
        self._report("standby.handed_over", txid=follower.txid, seconds=round(sync_permit.now_s() - began_s, 3))
        return None

    def _of(self, prefix: ReplicaPrefix) -> Follower | None:
        return next((each for each in (self.coming, self.kept) if each and each.prefix.path == prefix.path), None)

    async def _ask_bucket(self) -> None:
        """Find the prefix with the newest state, and the last position in the bucket."""
        record, before = self.record, self._wanted
        try:
            self._wanted = await in_daemon_thread(lambda: lease_record.newest_prefix(self._store, record))
            if before is not None and self._wanted is not None and self._wanted.path != before.path:
                self._begin_at_s, self._backoff_s = 0.0, _FIRST_BACKOFF_S  # what was wrong was with the old one
                self.stuck = None
            for follower in (self.kept, self.coming):
                if follower is not None:
                    await self._look(follower)
        except PostroomError as error:
            self.problem = str(error)
        else:
            self.problem = None

    async def _look(self, follower: Follower) -> None:
        known = follower.txid or follower.progress.newest
        began_s = sync_permit.now_s()
        newest = await in_daemon_thread(lambda: newest_position(self._store, follower.prefix, known))
        now_s = sync_permit.now_s()
        follower.look(newest, now_s, listing_s=now_s - began_s)

    async def _tend(self, now_s: float) -> None:
        kept = self.kept.facts(now_s, self._still_s) if self.kept else None
        coming = self.coming.facts(now_s, self._still_s) if self.coming else None
        match next_copy_step(self._wanted, kept, coming):
            case CopyStep.BEGIN if now_s >= self._begin_at_s and self._wanted is not None:
                self._say_why(kept is not None and kept.stands_still)
                await self._begin(self._wanted)
            case CopyStep.DROP if self.coming is not None:
                self._begin_at_s = now_s + self._backoff_s
                self._backoff_s = min(self._backoff_s * 2, _LAST_BACKOFF_S)
                self._report("standby.not_following", replica=self.coming.url, reason=self.coming.last_line)
                self.stuck = self.coming.last_line if self.coming.pid is None else self.stuck
                await self.coming.discard()
                self.coming = None
            case CopyStep.SWAP if self.coming is not None:
                before, self.kept, self.coming = self.kept, self.coming, None
                self._backoff_s, self.stuck = _FIRST_BACKOFF_S, None
                self._report("standby.following", replica=self.kept.url, txid=self.kept.txid)
                if before is not None:
                    await before.discard()

    def _say_why(self, stands_still: bool) -> None:
        if self.kept is None or self._wanted is None or self.kept.prefix.path != self._wanted.path:
            return
        if stands_still:
            at, newest = self.kept.txid, self.kept.progress.newest
            reason = f"it stays at {at} while the bucket has {newest}; another follower restores the copy"
        else:
            reason = f"it ended; another follower restores the copy. Its last output: {self.kept.last_line}"
        self._report("standby.follower_lost", replica=self.kept.url, reason=reason)

    async def _begin(self, prefix: ReplicaPrefix) -> None:
        self._number += 1
        folder = self._folder / str(self._number)
        url = prefix_url(self._url, prefix.path)
        self.coming = Follower(prefix, url, folder, self._environment, self._on_line)
        await self.coming.start()


def damage_of(copy: Path) -> str | None:
    """What is wrong with a copy whose follower has ended, or None; it is on the disk then."""
    durability.sync(copy)
    conn = open_connection(copy, readonly=True)
    try:
        found = str(scalar(conn, "PRAGMA quick_check"))
    except apsw.Error as error:
        found = str(error)
    finally:
        conn.close()
    return None if found == "ok" else found
