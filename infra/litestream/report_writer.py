"""Writes what the supervisor knows of the replica to a file, for the API (``shared/db/replica/replica_report.py``).

Every few seconds it reads Litestream's metrics, at an address of this machine that it chooses for each Litestream, and
takes the counts of our own client. Once an hour it lists the bucket. What Litestream sends in the last seconds before
it ends is not counted.
"""

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from infra.litestream.bucket import request_metrics
from infra.litestream.bucket.bucket_survey import survey
from infra.litestream.lease import Lease, in_daemon_thread
from infra.litestream.replica_settings import bucket_prices_from, upload_every_from
from shared.core.errors import PostroomError
from shared.core.time import clock
from shared.db.replica import replica_report, sync_permit
from shared.db.replica.replica_report import FOLDER, BucketSurvey, DayUse, ReplicaReport
from shared.db.replica.request_counts import NONE, RequestCounts

ADDRESS, INTERVAL = "POSTROOM_LITESTREAM_ADDR", "POSTROOM_REPLICA_INTERVAL"
_EVERY_S = 10.0
_ESTIMATE_S = 60.0
_SURVEY_EVERY_MS = 3_600_000


class ReportWriter:
    """The reports of one supervisor.

    Args:
        lease: taken, once :meth:`run` is called.
        url: of the replica.
        verify_every_ms: how often a restore is compared; 0: never.
        is_behind: whether commits do not reach the bucket.
    """

    def __init__(
        self,
        database: Path,
        url: str,
        lease: Lease,
        environ: Mapping[str, str],
        *,
        verify_every_ms: int,
        is_behind: Callable[[], bool],
    ) -> None:
        self._database = database
        self._url = without_query(url)
        self._is_billed = not url.startswith(FOLDER)
        self._lease = lease
        self.address = environ.get(ADDRESS) or ""  # of Litestream's metrics
        self._is_chosen = not self.address
        self._prices = bucket_prices_from(environ)
        self._upload_every = upload_every_from(environ)
        self._verify_every_ms = verify_every_ms
        self._is_behind = is_behind
        self._behind_since: int | None = None
        self._counted: RequestCounts | None = None  # of this Litestream, until the last report
        self._counted_s = time.monotonic()
        self._unestimated_s = 0.0
        there = replica_report.read(database)
        self._days = dict(there.days) if there else {}
        self._survey: BucketSurvey | None = None
        self._has_news = asyncio.Event()

    def begin_litestream(self) -> dict[str, str]:
        """Another Litestream is about to start: the variables that it needs."""
        if self._is_chosen:
            self.address = _free_address()
        self._counted = None
        return {ADDRESS: self.address, INTERVAL: self._upload_every}

    def write_soon(self) -> None:
        """Something has changed that nobody should learn ten seconds later."""
        self._has_news.set()

    async def run(self) -> None:
        """Write a report now and then, and when there is news, for ever."""
        while True:
            self._has_news.clear()
            await self.write(clock.now_ms())
            with contextlib.suppress(TimeoutError):
                # Not wait_for, which in Python 3.11 loses a cancellation that comes together with news.
                async with asyncio.timeout(_EVERY_S):
                    await self._has_news.wait()

    async def write(self, now_ms: int) -> None:
        """Write a report. A failure is none of replication: the file stays as it is."""
        try:
            await in_daemon_thread(lambda: self._write(now_ms))
        except (PostroomError, OSError):
            return

    def _write(self, now_ms: int) -> None:
        if self._is_behind():
            self._behind_since = self._behind_since or now_ms
        else:
            self._behind_since = None
        if self._is_survey_due(now_ms):
            self._look_into_the_bucket(now_ms)
        day = datetime.fromtimestamp(now_ms / 1000, UTC).date().isoformat()
        self._days = replica_report.add_day(self._days, day, self._use())
        self._report(now_ms).write(self._database)

    def _use(self) -> DayUse:
        """What came since the last report."""
        now_s = time.monotonic()
        passed_s, self._counted_s = now_s - self._counted_s, now_s
        told = request_metrics.read(self.address) if self._is_billed else None
        has_begun = told is not None and self._counted is None
        litestream = NONE
        if told is not None:
            litestream = told.minus(self._counted or NONE)
            self._counted = told
            litestream = litestream.plus(self._unseen(passed_s, has_begun))
        stored = self._survey.bytes if self._survey else None
        return DayUse(passed_s, litestream, self._lease.store.requests.take(), stored)

    def _unseen(self, passed_s: float, has_begun: bool) -> RequestCounts:
        """Estimated for a minute or more at a time, because single seconds would be rounded away."""
        self._unestimated_s += passed_s
        if self._unestimated_s < _ESTIMATE_S and not has_begun:
            return NONE
        seconds, self._unestimated_s = self._unestimated_s, 0.0
        levels = self._survey.levels if self._survey else []
        files = sum(each.files for each in levels if each.level == 0)
        return request_metrics.unseen(seconds, files, has_begun=has_begun)

    def _is_survey_due(self, now_ms: int) -> bool:
        if not self._lease.record.has_full_copy:
            return False
        return self._survey is None or now_ms - self._survey.at >= _SURVEY_EVERY_MS

    def _look_into_the_bucket(self, now_ms: int) -> None:
        self._survey = survey(self._lease.store, self._lease.record, now_ms=now_ms)

    def _report(self, now_ms: int) -> ReplicaReport:
        there = self._lease.record
        return ReplicaReport(
            at=now_ms,
            url=self._url,
            prefix=there.current.path,
            epoch=there.current.epoch,
            has_full_copy=there.has_full_copy,
            holder=f"{there.host} ({there.database}, {there.owner})",
            renewed_at=there.renewed_at,
            until=now_ms + round((self._lease.until_s - sync_permit.now_s()) * 1000),
            behind_since=self._behind_since,
            verify_every_ms=self._verify_every_ms,
            prices=self._prices,
            survey=self._survey,
            days=self._days,
        )


def without_query(url: str) -> str:
    """The URL of a replica for people; its query may hold what is not for them."""
    return urlunsplit(urlsplit(url)._replace(query=""))


def _free_address() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{found.getsockname()[1]}"
