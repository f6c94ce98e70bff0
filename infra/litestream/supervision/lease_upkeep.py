"""Keeps the lease and its record up to date, and lets functions rely on Litestream as long as the lease is surely ours.

Functions acknowledge what Litestream calls replicated only while the sync permit is valid
(``shared/db/replica/sync_permit.py``).
"""

import asyncio
from collections.abc import Callable

from infra.litestream.lease import RENEWALS, Lease, LeaseLost, in_daemon_thread
from infra.litestream.restored_files import is_missing
from infra.litestream.supervision.doubt import may_rely
from infra.litestream.supervision.history_reads import HistoryReads
from infra.litestream.supervision.process_life import LitestreamLife
from infra.litestream.supervision.trouble_report import TroubleReport
from shared.core.errors import NotReplicated, PostroomError
from shared.db.replica import sync_permit
from shared.db.replica.sync import sync

_AGAIN_S = 1.0  # between two attempts to renew


class LeaseUpkeep:
    """The upkeep of one supervisor's lease.

    Args:
        lease: taken.
        limit_s: how long Litestream may take to bring everything to the bucket, at each attempt.
        report: as of the supervisor.
        on_full_copy: called when the current prefix has its first full copy.
        on_lost: called with the reason when the lease is lost.
    """

    def __init__(
        self,
        lease: Lease,
        life: LitestreamLife,
        history: HistoryReads,
        *,
        limit_s: float,
        report: Callable[..., None],
        on_full_copy: Callable[[], None],
        on_lost: Callable[[str], None],
    ) -> None:
        self._lease = lease
        self._life = life
        self._history = history
        self._limit_s = limit_s
        self._report = report
        self._on_full_copy = on_full_copy
        self._on_lost = on_lost
        self._has_started = asyncio.Event()

    def litestream_started(self) -> None:
        """Another Litestream runs; where it goes on under a prefix that has a full copy, functions may rely on it."""
        self._has_started.set()
        self.grant()

    def grant(self) -> str | None:
        """Let functions rely on Litestream until the lease runs out; why the permit can't be written, or None."""
        has_full_copy = self._lease.record.has_full_copy
        if may_rely(self._life.doubt, has_full_copy=has_full_copy, is_ending=self._life.is_ending):
            try:
                sync_permit.grant(self._life.launch.control, self._lease.until_s)
            except OSError as error:  # the disk is full: the last one runs out
                return f"the sync permit can't be written: {error}"
        return None

    async def renew_for_ever(self) -> None:
        """Renew the lease several times in the time that it lasts."""
        trouble = TroubleReport(self._report, "replicate.lease_unsure", "replicate.lease_renewed")
        pause_s = self._lease.ttl_ms / 1000 / RENEWALS
        while True:
            await asyncio.sleep(pause_s if trouble.problem is None else min(pause_s, _AGAIN_S))
            problem = await self.renew()
            if self._life.is_ending:
                return
            trouble.see(problem)

    async def renew(self) -> str | None:
        """Renew the lease; why that is not known to have succeeded, or None. Losing it ends everything."""
        facts = await in_daemon_thread(self._history.read)
        try:
            await self._lease.renew(newest_event_id=facts.newest_event_id)
        except LeaseLost as error:
            self._on_lost(str(error))
        except PostroomError as error:  # the store does not answer, or refuses: its lease may still be ours
            return str(error)
        return self.grant()

    async def note_full_copies(self) -> None:
        """Note in the lease record when a prefix has its first full copy; until then readers take the one before."""
        while True:
            await self._has_started.wait()
            self._has_started.clear()
            pause_s = 0.01
            while not self._lease.record.has_full_copy and not await self._note_full_copy():
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 1.5, 1.0)

    async def _note_full_copy(self) -> bool:
        prefix, launch = self._lease.record.current, self._life.launch
        if is_missing(launch.database):
            return False
        try:
            await sync(launch.control, launch.database, self._limit_s)
        except NotReplicated:
            return False
        # On a first start the database, which came later, names the epoch.
        facts = await in_daemon_thread(self._history.read)
        try:
            await self._lease.note_full_copy(prefix, facts.epoch)
        except LeaseLost as error:
            self._on_lost(str(error))
        except PostroomError:
            return False
        self.grant()
        if self._lease.record.has_full_copy:
            self._report("replicate.begun")
            self._on_full_copy()
        return True
