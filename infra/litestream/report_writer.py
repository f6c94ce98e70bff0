"""Writes what the supervisor knows of the replica to a file, for the API (``shared/db/replica/replica_report.py``).

Every few seconds it takes the counts of our own client. Once an hour it lists the bucket. Litestream counts its own
requests, at ``POSTROOM_LITESTREAM_ADDR`` (docs/replication.md).
"""

import asyncio
import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from infra.litestream.bucket.bucket_survey import survey
from infra.litestream.lease import Lease, in_daemon_thread
from shared.core.errors import PostroomError
from shared.core.time import clock
from shared.db.replica import replica_report, sync_permit
from shared.db.replica.positions.urls import without_secrets
from shared.db.replica.replica_report import BucketSurvey, ReplicaReport

_EVERY_S = 10.0
_SURVEY_EVERY_MS = 3_600_000


class ReportWriter:
    """The reports of one supervisor.

    Args:
        lease: taken, once :meth:`run` is called.
        url: of the replica.
        verify_every_ms: how often a restore is compared; 0: never.
        is_behind: whether commits do not reach the bucket.
        why_behind: whether the bucket answers us then, and how often Litestream was restarted.
    """

    def __init__(
        self,
        database: Path,
        url: str,
        lease: Lease,
        *,
        verify_every_ms: int,
        is_behind: Callable[[], bool],
        why_behind: Callable[[], tuple[bool | None, int]],
    ) -> None:
        self._database = database
        self._url = without_secrets(url)
        self._lease = lease
        self._verify_every_ms = verify_every_ms
        self._is_behind = is_behind
        self._why_behind = why_behind
        self._behind_since: int | None = None
        self._counting_since: int | None = None
        there = replica_report.read(database)
        self._sizes = there.sizes if there else {}
        self._survey: BucketSurvey | None = None
        self._has_news = asyncio.Event()

    def write_soon(self) -> None:
        """Something has changed that nobody should learn ten seconds later."""
        self._has_news.set()

    async def run(self) -> None:
        """Write a report now and then, and when there is news, for ever."""
        while True:
            self._has_news.clear()
            await self.write(clock.machine_ms())
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
        self._counting_since = self._counting_since or now_ms
        if self._is_survey_due(now_ms):
            self._look_into_the_bucket(now_ms)
        self._report(now_ms).write(self._database)

    def _is_survey_due(self, now_ms: int) -> bool:
        if not self._lease.record.has_full_copy:
            return False
        return self._survey is None or now_ms - self._survey.at >= _SURVEY_EVERY_MS

    def _look_into_the_bucket(self, now_ms: int) -> None:
        self._survey = survey(self._lease.store, self._lease.record, now_ms=now_ms)
        day = datetime.fromtimestamp(now_ms / 1000, UTC).date().isoformat()
        self._sizes = replica_report.add_size(self._sizes, day, self._survey.bytes)

    def _report(self, now_ms: int) -> ReplicaReport:
        there = self._lease.record
        bucket_answers, restarts = self._why_behind()
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
            requests=self._lease.store.requests.counts,
            counting_since=self._counting_since or now_ms,
            survey=self._survey,
            sizes=self._sizes,
            bucket_answers=bucket_answers,
            restarts=restarts,
        )
