"""Removes old prefixes of the replica from time to time (``infra/litestream/bucket/retention.py``)."""

import asyncio
from collections.abc import Callable

from infra.litestream.bucket import retention
from infra.litestream.lease import Lease, LeaseLost
from infra.litestream.supervision.trouble_report import TroubleReport
from shared.core.errors import PostroomError
from shared.core.time import clock
from shared.db.replica.lease_record import prefix_url

_EVERY_S = 60.0


class ScheduledRemoval:
    """The removals of one supervisor.

    Args:
        lease: taken.
        replica: the URL.
        retention_ms: how long old prefixes stay; 0: for ever.
        report: as of the supervisor.
        on_lost: called with the reason when the lease is lost.
    """

    def __init__(
        self,
        lease: Lease,
        replica: str,
        *,
        retention_ms: int,
        report: Callable[..., None],
        on_lost: Callable[[str], None],
    ) -> None:
        self._lease = lease
        self._replica = replica
        self._retention_ms = retention_ms
        self._report = report
        self._on_lost = on_lost

    async def run(self) -> None:
        """Remove what is due, for ever; report the first failure of several."""
        trouble = TroubleReport(self._report, "replicate.cant_remove")
        while True:
            await asyncio.sleep(_EVERY_S)
            trouble.see(await self.remove())

    async def remove(self) -> str | None:
        """Remove files of an old prefix, if one is due. Why that failed, or None; it may be tried again."""
        there = self._lease.record
        prefix = retention.oldest_removable(there, clock.machine_ms(), self._retention_ms)
        if prefix is None:
            return None
        try:
            if await self._lease.ask_store(lambda store: retention.remove_files(store, there, prefix)):
                await self._lease.forget_old_prefix(prefix)
                self._report("replicate.removed", replica=prefix_url(self._replica, prefix.path))
        except LeaseLost as error:
            self._on_lost(str(error))
        except (PostroomError, OSError, ValueError) as error:
            return str(error)
        return None
