"""Runs Litestream, and watches it, for as long as the replica's lease is ours.

A Litestream that runs is no proof that it replicates. Every ten seconds the supervisor asks it, over its control
socket, to bring everything to the replica, and reports what changed. It mends one failure (:func:`mend`). Of any other
it reports the beginning and the end. It starts Litestream again when it ends, and waits for a bucket that is away. Rows
that are not in the replica yet are on this disk only, so the supervisor never gives up.

Litestream 0.5.17 may send too little after it was killed, or could not write its own files (a full disk), and says all
the same that it has caught up. It goes on from its local state, or from the newest file in the bucket. It does not see
that the log began again meanwhile, or that something other than the bucket answered. It may send too little as well
after a writer died in a commit (``shared/db/engine/write_gate.py``). So each Litestream that follows another begins
with a full copy under a new prefix, where nothing can mislead it, and one that may be misled is killed at once. Only
the first one goes on where another was, if that one ended in good order (``infra/litestream/local_state.py``).

No other process may checkpoint beside it (``shared/db/engine/checkpoints.py``): it inherits the checkpoint lock.

Only a restore proves what is in the bucket, so from time to time one is compared with the database
(``infra/litestream/comparison/compare.py``). Where it differs, another Litestream begins with a full copy too.

Functions acknowledge what Litestream calls replicated only while the supervisor's sync permit is valid
(``shared/db/replica/sync_permit.py``). docs/replication.md explains all of this with what was measured.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from infra.litestream import local_state
from infra.litestream.bucket.scheduled_removal import ScheduledRemoval
from infra.litestream.comparison.scheduled_comparison import ScheduledComparison
from infra.litestream.launch import CHECKPOINT_LIMIT_S, LitestreamLaunch
from infra.litestream.lease import Lease, LeaseLost, in_daemon_thread
from infra.litestream.report_writer import ReportWriter
from infra.litestream.restored_files import HistoryFacts, read_facts
from infra.litestream.standstill import LookPace
from infra.litestream.supervision.doubt import Doubt, has_ended_well, is_complete
from infra.litestream.supervision.history_reads import HistoryReads
from infra.litestream.supervision.lease_upkeep import LeaseUpkeep
from infra.litestream.supervision.looks import LitestreamLooks
from infra.litestream.supervision.process_life import LitestreamLife
from infra.litestream.wal import mend
from infra.processes import stop
from shared.core.errors import NotReplicated, PostroomError
from shared.db.engine import write_gate
from shared.db.replica import sync_permit
from shared.db.replica.lease_record import prefix_url
from shared.db.replica.sync import sync

_STOP_LIMIT_S = 50.0  # Litestream's own is 30 s, the container's 60 s
_RELEASE_LIMIT_S = 3.0
_WATCH_EVERY_S = 0.05  # writers wait for it
_PACE = LookPace()


class Fenced(LeaseLost):
    """Replication has ended here: another machine has the lease."""


class LitestreamSupervisor:
    """Runs one Litestream process after another, on one database, for as long as the lease is ours.

    Args:
        argv: the program, with the configuration that names the database, *control*, and ``POSTROOM_REPLICA_URL``.
        replica: the URL; Litestream's environment names the lease's current prefix below it.
        lease: taken; the supervisor renews it from now on, and gives it back.
        report: called with the name of each event, and its facts; ``infra/litestream/replicate.py`` lists the names.
        on_line: called with each line that Litestream prints; by default it goes to our own output.
        checkpoint_limit_s, configure: as of :class:`LitestreamLaunch`.
        retention_ms: how long old prefixes stay (``bucket/retention.py``); 0: for ever.
        verify_ms: how often a restore is compared with the database (``comparison/compare.py``); 0: never.
        pace: how often it looks at Litestream.
        read: reads the database's history.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        replica: str,
        environment: Mapping[str, str],
        database: Path,
        control: Path,
        lease: Lease,
        report: Callable[..., None],
        on_line: Callable[[str], None] = lambda line: print(line, flush=True),  # noqa: T201 - it is Litestream's log
        stop_limit_s: float = _STOP_LIMIT_S,
        checkpoint_limit_s: float = CHECKPOINT_LIMIT_S,
        configure: Callable[[str], None] = lambda url: None,
        retention_ms: int = 0,
        verify_ms: int = 0,
        pace: LookPace = _PACE,
        read: Callable[[Path], HistoryFacts] = read_facts,
    ) -> None:
        self.control = control
        self.lease = lease
        self._replica = replica
        self._database = database
        self._report = report
        self._stop_limit_s = stop_limit_s
        self._history = HistoryReads(database, read)
        self.life = LitestreamLife(
            LitestreamLaunch(argv, environment, database, control, checkpoint_limit_s, configure),
            lambda: self.current_url,
            make_way=self._make_way,
            on_start=self._litestream_started,
            report=report,
            on_line=on_line,
        )
        self._looks = LitestreamLooks(lease, self.life, pace, report)
        self.reports = ReportWriter(
            *(database, replica, lease),
            verify_every_ms=verify_ms,
            is_behind=lambda: self.is_behind,
            why_behind=lambda: (self._looks.bucket_answers, self._looks.restarts),
        )
        self.upkeep = LeaseUpkeep(
            *(lease, self.life, self._history),
            limit_s=pace.limit_s,
            report=report,
            on_full_copy=self.reports.write_soon,
            on_lost=self._fence,
        )
        self.comparison = ScheduledComparison(
            database,
            replica,
            control,
            environment,
            period_ms=verify_ms,
            report=report,
            is_complete=lambda: is_complete(
                self.life.doubt, has_full_copy=lease.record.has_full_copy, is_behind=self.is_behind
            ),
            on_difference=lambda: self.life.hold(Doubt.DISPROVEN),
        )
        self.removal = ScheduledRemoval(lease, replica, retention_ms=retention_ms, report=report, on_lost=self._fence)
        self._tasks: list[asyncio.Task[None]] = []
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def pid(self) -> int | None:
        return self.life.pid

    @property
    def behind(self) -> str | None:
        """Why commits did not reach the bucket at the last look, although Litestream runs; None if they did."""
        return self._looks.behind.problem

    @property
    def is_behind(self) -> bool:
        return self.behind is not None

    @property
    def current_url(self) -> str:
        """The URL of the current prefix: where the newest copy is, or is about to be."""
        return prefix_url(self._replica, self.lease.record.current.path)

    async def start(self, running: asyncio.subprocess.Process | None = None) -> None:
        """Supervise Litestream from now on: the one that is *running* on the lease's current prefix, or a new one."""
        await self.life.begin(running)
        works = [
            *(self.life.keep_running(), self.upkeep.note_full_copies(), self._looks.run()),
            *(self._watch_the_gate(), self.upkeep.renew_for_ever(), self.removal.run(), self.comparison.run()),
            self.reports.run(),
        ]
        self._tasks = [asyncio.create_task(work) for work in works]

    async def wait(self) -> None:
        """Return when it was stopped, and not before.

        Raises:
            Fenced: the lease is lost, and Litestream was killed.
        """
        done, _ = await asyncio.wait([self._lost, *self._tasks], return_when=asyncio.FIRST_EXCEPTION)
        for ended in done:
            if not ended.cancelled():
                ended.result()

    async def sync(self, limit_s: float) -> str | None:
        """Have everything committed so far brought to the replica; None when it is there, else why it is not."""
        try:
            await sync(self.control, self._database, limit_s)
        except NotReplicated as error:
            return str(error)
        return None

    async def look(self, limit_s: float | None = None) -> str | None:
        """Look once now; see :meth:`LitestreamLooks.look`."""
        return await self._looks.look(limit_s)

    async def stop(self) -> int:
        """Stop Litestream, which makes a last sync at SIGTERM, and give the lease back; Litestream's exit code."""
        self.life.end()
        for task in self._tasks[1:]:
            task.cancel()
        await asyncio.gather(*self._tasks[1:], return_exceptions=True)
        if self.life.process is not None:
            await stop(self.life.process, timeout_s=self._stop_limit_s)
        await asyncio.gather(*self._tasks[:1])
        code = (self.life.process.returncode or 0) if self.life.process is not None else 0
        sync_permit.revoke(self.control)
        if has_ended_well(self.life.doubt, code) and not write_gate.check_torn(self._database):
            await asyncio.to_thread(self._history.mark_good_end)
        self.control.unlink(missing_ok=True)
        if not self._lost.done():
            with contextlib.suppress(PostroomError, TimeoutError):  # then the lease runs out by itself
                facts = await in_daemon_thread(self._history.read)
                await asyncio.wait_for(self.lease.release(facts.newest_event_id or None), _RELEASE_LIMIT_S)
        return code

    async def _make_way(self, doubt: Doubt) -> None:
        """Prepare the start of a Litestream that follows another: under a prefix of its own, where nothing misleads it.

        Raises:
            StoreUnreachable, StoreRefused, OSError, apsw.Error
        """
        if doubt.needs_mending:
            await asyncio.to_thread(mend, self._database)
        try:
            await self.lease.begin_prefix_of_same_epoch()
        except LeaseLost as error:
            self._fence(str(error))
            return
        await asyncio.to_thread(local_state.remove, self._database)

    def _litestream_started(self) -> None:
        self._looks.begin_again()
        self.upkeep.litestream_started()

    async def _watch_the_gate(self) -> None:
        while True:
            await asyncio.sleep(_WATCH_EVERY_S)
            with contextlib.suppress(OSError):  # no file can be opened just now
                if write_gate.check_torn(self._database):
                    self.life.hold(Doubt.TORN_COMMIT, "a process died in a commit")

    def _fence(self, reason: str) -> None:
        """End replication at once, without a last sync."""
        self.life.end()
        self.life.kill()
        self._report("replicate.fenced", reason=reason)
        if not self._lost.done():
            self._lost.set_exception(Fenced(reason))
            self._lost.exception()  # a caller of wait() gets it; without one it is no error
        for task in self._tasks[1:]:
            if task is not asyncio.current_task():
                task.cancel()
