"""Looks whether Litestream replicates: it may run, say that it is well, and bring nothing to the bucket."""

import asyncio
import time
from collections.abc import Callable

from infra.litestream import local_files, local_state
from infra.litestream.lease import Lease
from infra.litestream.restored_files import is_missing
from infra.litestream.standstill import LookPace, StandstillWatch, Upload, newest_file
from infra.litestream.supervision.doubt import Doubt
from infra.litestream.supervision.process_life import LitestreamLife
from infra.litestream.supervision.trouble_report import TroubleReport
from infra.litestream.trouble_words import CANT_READ
from shared.core.errors import NotReplicated, PostroomError
from shared.core.time import clock
from shared.db.replica import sync_permit
from shared.db.replica.sync import sync

_FILES_EVERY_S = 1.0  # a look at how many local files there are takes 0.1 ms


class LitestreamLooks:
    """The looks of one supervisor.

    Args:
        pace: how often to look.
        report: as of the supervisor.

    Attributes:
        behind: the trouble that Litestream runs, and yet commits do not reach the bucket.
        bucket_answers: us, at the last look at which Litestream was behind; None: it is not, or we did not ask.
    """

    def __init__(self, lease: Lease, life: LitestreamLife, pace: LookPace, report: Callable[..., None]) -> None:
        self.behind = TroubleReport(report, "replicate.behind", "replicate.caught_up")
        self._database = life.launch.database
        self._lease = lease
        self._life = life
        self._pace = pace
        self._report = report
        self._files = local_files.FilePace()
        self._watch = StandstillWatch(pace.still_s)
        self._newest = ""  # the newest file in the bucket that a look has found
        self.bucket_answers: bool | None = None

    @property
    def restarts(self) -> int:
        """How often Litestream was restarted since it last caught up, because it stood still."""
        return self._watch.restarts

    async def run(self) -> None:
        """Look for ever, more often while Litestream is behind."""
        while True:
            if self.behind.problem is not None:
                await asyncio.sleep(self._pace.behind_s)
            else:
                await self._rest()
            if not self._life.doubt.needs_mending:
                await self.look()

    def begin_again(self) -> None:
        """Another Litestream runs: what was seen of the one before counts no more."""
        self._watch, self._newest = self._watch.begin_again(), ""

    async def look(self, limit_s: float | None = None) -> str | None:
        """Look once: report what changed, and mend what can be mended. Why it is behind, or None.

        When it has caught up, local files that it needs no more go (``infra/litestream/local_files.py``).
        """
        limit_s = self._pace.limit_s if limit_s is None else limit_s
        asked, replicated, problem = self._life.process, 0, None
        try:
            replicated = await sync(self._life.launch.control, self._database, limit_s)
        except NotReplicated as error:
            problem = str(error)
        was_behind = self.behind.problem is not None
        self.behind.see(problem)
        if problem is None:
            self._watch, self.bucket_answers = self._watch.caught_up(), None
            await self._remove_sent(asked, replicated)
        elif was_behind and CANT_READ in problem:  # once may be chance
            self._report("replicate.mending", reason=problem)
            await self._life.stop_unreadable()
        else:
            await self._end_standstill(problem, limit_s)
        return problem

    async def _rest(self) -> None:
        """Wait until the next look, or until there are so many local files that they have to go before."""
        until_s = time.monotonic() + self._pace.every_s
        while (left_s := until_s - time.monotonic()) > 0:
            await asyncio.sleep(min(left_s, _FILES_EVERY_S))
            if await asyncio.to_thread(self._files.look, self._database, time.monotonic()):
                return

    async def _remove_sent(self, asked: asyncio.subprocess.Process | None, replicated: int) -> None:
        """Remove local files of the Litestream that was *asked*, and gave the position *replicated*."""

        def is_current() -> bool:
            return asked is not None and asked is self._life.process and asked.returncode is None

        removed = await asyncio.to_thread(
            local_files.remove_sent,
            *(self._database, replicated, clock.machine_ms() / 1000, is_current),
            recent=self._files.recent,
        )
        self._files.removed(removed)

    async def _end_standstill(self, problem: str, limit_s: float) -> None:
        """Kill a Litestream that will not come on any more, so that another begins with a full copy."""
        upload = await self._see_upload(limit_s)
        if upload is None or self._life.pid is None or self._life.is_ending:
            self._watch = self._watch.begin_again()
            return
        self._watch = self._watch.behind(upload)
        if self._watch.stands_still(upload):
            self._watch = self._watch.restarted()
            self._report("replicate.standing_still", reason=problem)
            self._life.hold(Doubt.STOOD_STILL)

    async def _see_upload(self, limit_s: float) -> Upload | None:
        """How far Litestream has come; None while there is nothing to send, or the bucket does not answer us either."""
        if is_missing(self._database):
            return None
        prefix, known = self._lease.record.current, self._newest
        try:
            async with asyncio.timeout(limit_s):
                newest = await self._lease.ask_store(lambda store: newest_file(store, prefix, known))
        except (PostroomError, TimeoutError):
            self.bucket_answers = False
            return None
        self.bucket_answers = True
        if prefix != self._lease.record.current:
            return None  # another Litestream has begun meanwhile
        self._newest = newest
        waiting = local_state.bytes_after(self._database, self._newest.rpartition("/")[2])
        return Upload(sync_permit.now_s(), self._lease.renewed_s, self._newest, waiting)
