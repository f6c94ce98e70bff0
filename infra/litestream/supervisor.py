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
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import apsw

from infra.litestream import local_files, local_state
from infra.litestream.bucket.scheduled_removal import ScheduledRemoval
from infra.litestream.comparison.scheduled_comparison import ScheduledComparison
from infra.litestream.lease import RENEWALS, Lease, LeaseLost, in_daemon_thread
from infra.litestream.replica_settings import replicating_environment
from infra.litestream.report_writer import ReportWriter
from infra.litestream.restored_files import HistoryFacts, is_missing, read_facts
from infra.litestream.standstill import LookPace, StandstillWatch, Upload, newest_file
from infra.litestream.trouble_words import CANT_READ, is_own_trouble
from infra.litestream.wal import begin_log, lock_checkpoints, mend
from infra.processes import follow, kill_group, spawn, stop
from shared.core.errors import NotReplicated, PostroomError
from shared.core.time import clock
from shared.db.engine import write_gate
from shared.db.replica import sync_permit
from shared.db.replica.lease_record import prefix_url
from shared.db.replica.sync import sync

_FIRST_BACKOFF_S, _LAST_BACKOFF_S = 0.5, 30.0
_SETTLED_S = 30.0  # a Litestream that ran so long had begun well
_STOP_FOR_MENDING_S = 5.0
_STOP_LIMIT_S = 50.0  # Litestream's own is 30 s, the container's 60 s
_RELEASE_LIMIT_S = 3.0
_READ_LIMIT_S = 5.0  # of the database's history, which takes some milliseconds
_CHECKPOINT_LIMIT_S = 10.0
_AGAIN_S = 1.0  # between two attempts to start Litestream, or to renew
_WATCH_EVERY_S = 0.05  # writers wait for it
_FILES_EVERY_S = 1.0  # a look at how many local files there are takes 0.1 ms
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
        checkpoint_limit_s: float = _CHECKPOINT_LIMIT_S,
        retention_ms: int = 0,
        verify_ms: int = 0,
        pace: LookPace = _PACE,
        read: Callable[[Path], HistoryFacts] = read_facts,
    ) -> None:
        self.control = control
        self.lease = lease
        self.is_behind = False  # Litestream runs, and yet commits do not reach the bucket
        self._replica = replica
        self._argv = argv
        self._environment = environment
        self._database = database
        self._report = report
        self._on_line = on_line
        self._stop_limit_s = stop_limit_s
        self._checkpoint_limit_s = checkpoint_limit_s
        self._pace = pace
        self._read = read
        self._reads = threading.Lock()  # held while the database is open here
        self._watch = StandstillWatch(pace.still_s)
        self._file_pace = local_files.FilePace()
        self._newest = ""  # the newest file in the bucket that a look has found
        self.comparison = ScheduledComparison(
            database,
            replica,
            control,
            environment,
            period_ms=verify_ms,
            report=report,
            is_complete=lambda: self._is_complete,
            on_difference=self._end_untrusted,
        )
        self.removal = ScheduledRemoval(lease, replica, retention_ms=retention_ms, report=report, on_lost=self._fence)
        self.reports = ReportWriter(
            database, replica, lease, verify_every_ms=verify_ms, is_behind=lambda: self.is_behind
        )
        self._process: asyncio.subprocess.Process | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._must_mend = False
        self._is_doubtful = False  # what it sends may lack something
        self._is_to_blame = True  # for its own end
        self._spawned = asyncio.Event()
        self._ending: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process and self._process.returncode is None else None

    @property
    def current_url(self) -> str:
        """The URL of the current prefix: where the newest copy is, or is about to be."""
        return prefix_url(self._replica, self.lease.record.current.path)

    async def start(self, running: asyncio.subprocess.Process | None = None) -> None:
        """Supervise Litestream from now on: the one that is *running* on the lease's current prefix, or a new one."""
        self._process = running or await self._spawn()
        self._spawned.set()
        works = [
            *(self._keep_running(self._process), self._note_full_copies(), self._look_for_ever()),
            *(self._watch_the_gate(), self._renew_for_ever(), self.removal.run(), self.comparison.run()),
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

    async def stop(self) -> int:
        """Stop Litestream, which makes a last sync at SIGTERM, and give the lease back; Litestream's exit code."""
        self._end()
        for task in self._tasks[1:]:
            task.cancel()
        await asyncio.gather(*self._tasks[1:], return_exceptions=True)
        if self._process is not None:
            await stop(self._process, timeout_s=self._stop_limit_s)
        await asyncio.gather(*self._tasks[:1])
        code = (self._process.returncode or 0) if self._process is not None else 0
        sync_permit.revoke(self.control)
        if code == 0 and not self._is_doubtful and not write_gate.check_torn(self._database):
            await asyncio.to_thread(self._mark_good_end)
        self.control.unlink(missing_ok=True)
        if not self._lost.done():
            with contextlib.suppress(PostroomError, TimeoutError):  # then the lease runs out by itself
                facts = await in_daemon_thread(self._facts)
                await asyncio.wait_for(self.lease.release(facts.newest_event_id or None), _RELEASE_LIMIT_S)
        return code

    async def look(self, limit_s: float | None = None) -> str | None:
        """Look once: report what changed, and mend what can be mended. Why it is behind, or None.

        When it has caught up, local files that it needs no more go (``infra/litestream/local_files.py``).
        """
        limit_s = self._pace.limit_s if limit_s is None else limit_s
        asked, replicated, problem = self._process, 0, None
        try:
            replicated = await sync(self.control, self._database, limit_s)
        except NotReplicated as error:
            problem = str(error)
        was_behind, self.is_behind = self.is_behind, problem is not None
        if problem is None:
            self._watch = self._watch.caught_up()
            if was_behind:
                self._report("replicate.caught_up")
            await self._remove_sent(asked, replicated)
            return None
        if not was_behind:
            self._report("replicate.behind", reason=problem)
        elif CANT_READ in problem:
            self._report("replicate.mending", reason=problem)
            self._must_mend = True
            await self._stop_litestream()
            return problem
        await self._end_standstill(problem, limit_s)
        return problem

    async def _remove_sent(self, asked: asyncio.subprocess.Process | None, replicated: int) -> None:
        """Remove local files of the Litestream that was *asked*, and gave the position *replicated*."""

        def is_current() -> bool:
            return asked is not None and asked is self._process and asked.returncode is None

        removed = await asyncio.to_thread(
            local_files.remove_sent,
            *(self._database, replicated, clock.now_ms() / 1000, is_current),
            recent=self._file_pace.recent,
        )
        self._file_pace.removed(removed)

    async def _end_standstill(self, problem: str, limit_s: float) -> None:
        """Kill a Litestream that will not come on any more, so that another begins with a full copy."""
        upload = await self._see_upload(limit_s)
        if upload is None or self.pid is None or self._ending.done():
            self._watch = self._watch.begin_again()
            return
        self._watch = self._watch.behind(upload)
        if self._watch.stands_still(upload):
            self._watch = self._watch.restarted()
            self._report("replicate.standing_still", reason=problem)
            self._is_to_blame = False
            self._end_untrusted()

    async def _see_upload(self, limit_s: float) -> Upload | None:
        """How far Litestream has come; None while there is nothing to send, or the bucket does not answer us either."""
        if is_missing(self._database):
            return None
        prefix, known = self.lease.record.current, self._newest
        try:
            async with asyncio.timeout(limit_s):
                newest = await self.lease.ask_store(lambda store: newest_file(store, prefix, known))
        except (PostroomError, TimeoutError):
            return None
        if prefix != self.lease.record.current:
            return None  # another Litestream has begun meanwhile
        self._newest = newest
        waiting = local_state.bytes_after(self._database, self._newest.rpartition("/")[2])
        return Upload(sync_permit.now_s(), self.lease.renewed_s, self._newest, waiting)

    async def _stop_litestream(self) -> None:
        """Stop it; :meth:`_keep_running` starts another."""
        if self._process is not None:
            await stop(self._process, timeout_s=_STOP_FOR_MENDING_S)

    def _read_line(self, line: str) -> None:
        self._on_line(line)
        if is_own_trouble(line):
            self._doubt(line[:500])

    def _doubt(self, reason: str) -> None:
        """What it sends may lack something: kill it before it can say that it has caught up."""
        if not self._is_doubtful:
            self._is_doubtful = True
            if not self._ending.done():
                self._report("replicate.doubtful", reason=reason)
                self._kill()

    def _grant_permit(self) -> str | None:
        """Let functions rely on Litestream until the lease runs out; why the permit can't be written, or None."""
        if self.lease.record.has_full_copy and not self._is_doubtful and not self._ending.done():
            try:
                sync_permit.grant(self.control, self.lease.until_s)
            except OSError as error:  # the disk is full: the last one runs out
                return f"the sync permit can't be written: {error}"
        return None

    @property
    def _is_complete(self) -> bool:
        """Whether the replica should have everything, but for what was committed a moment ago."""
        return self.lease.record.has_full_copy and not self.is_behind and not self._is_doubtful

    def _end_untrusted(self) -> None:
        """Kill a Litestream without a doubt to report: another begins with a full copy."""
        self._is_doubtful = True
        self._kill()

    def _kill(self) -> None:
        try:
            sync_permit.revoke(self.control)
        finally:
            if self._process is not None and self._process.returncode is None:
                kill_group(self._process.pid)

    async def _note_full_copies(self) -> None:
        """Note in the lease record when a prefix has its first full copy; until then readers take the one before."""
        while True:
            await self._spawned.wait()
            self._spawned.clear()
            pause_s = 0.01
            while not self.lease.record.has_full_copy and not await self._note_full_copy():
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 1.5, 1.0)

    async def _note_full_copy(self) -> bool:
        prefix = self.lease.record.current
        if is_missing(self._database) or await self.sync(self._pace.limit_s) is not None:
            return False
        facts = await in_daemon_thread(self._facts)  # on a first start the database, which came later, names the epoch
        try:
            await self.lease.note_full_copy(prefix, facts.epoch)
        except LeaseLost as error:
            self._fence(str(error))
        except PostroomError:
            return False
        self._grant_permit()
        if self.lease.record.has_full_copy:
            self._report("replicate.begun")
            self.reports.write_soon()
        return True

    async def _look_for_ever(self) -> None:
        while True:
            if self.is_behind:
                await asyncio.sleep(self._pace.behind_s)
            else:
                await self._rest()
            if not self._must_mend:
                await self.look()

    async def _rest(self) -> None:
        """Wait until the next look, or until there are so many local files that they have to go before."""
        until_s = time.monotonic() + self._pace.every_s
        while (left_s := until_s - time.monotonic()) > 0:
            await asyncio.sleep(min(left_s, _FILES_EVERY_S))
            if await asyncio.to_thread(self._file_pace.look, self._database, time.monotonic()):
                return

    async def _renew_for_ever(self) -> None:
        is_reported = False
        pause_s = self.lease.ttl_ms / 1000 / RENEWALS
        while True:
            await asyncio.sleep(min(pause_s, _AGAIN_S) if is_reported else pause_s)
            problem = await self._renew()
            if self._ending.done():
                return
            if problem is not None and not is_reported:
                self._report("replicate.lease_unsure", reason=problem)
            elif problem is None and is_reported:
                self._report("replicate.lease_renewed")
            is_reported = problem is not None

    async def _renew(self) -> str | None:
        """Renew the lease; why that is not known to have succeeded, or None. Losing it ends everything."""
        facts = await in_daemon_thread(self._facts)
        try:
            await self.lease.renew(newest_event_id=facts.newest_event_id)
        except LeaseLost as error:
            self._fence(str(error))
        except PostroomError as error:  # the store does not answer, or refuses: its lease may still be ours
            return str(error)
        return self._grant_permit()

    async def _watch_the_gate(self) -> None:
        while True:
            await asyncio.sleep(_WATCH_EVERY_S)
            with contextlib.suppress(OSError):  # no file can be opened just now
                if write_gate.check_torn(self._database):
                    self._is_to_blame = False
                    self._doubt("a process died in a commit")

    def _fence(self, reason: str) -> None:
        """End replication at once, without a last sync."""
        self._end()
        self._kill()
        self._report("replicate.fenced", reason=reason)
        if not self._lost.done():
            self._lost.set_exception(Fenced(reason))
            self._lost.exception()  # a caller of wait() gets it; without one it is no error
        for task in self._tasks[1:]:
            if task is not asyncio.current_task():
                task.cancel()

    def _facts(self) -> HistoryFacts:
        if is_missing(self._database) or not self._reads.acquire(timeout=_READ_LIMIT_S):
            return HistoryFacts(None, 0)
        try:
            return self._read(self._database)
        except PostroomError:
            return HistoryFacts(None, 0)
        finally:
            self._reads.release()

    def _mark_good_end(self) -> None:
        """Mark the local state as trusted, if the log is gone; a read that a cancelled task began would keep it."""
        if self._reads.acquire(timeout=_READ_LIMIT_S):
            try:
                local_state.mark_good_end(self._database)
            finally:
                self._reads.release()

    def _end(self) -> None:
        if not self._ending.done():
            self._ending.set_result(None)

    async def _pause(self, seconds: float) -> None:
        """Sleep, or return early at the end."""
        await asyncio.wait([self._ending], timeout=seconds)

    def _configure(self) -> None:
        """Litestream is about to start: write its configuration, where that is not a file of its own."""

    async def _spawn(self) -> asyncio.subprocess.Process:
        sync_permit.revoke(self.control)
        self.control.unlink(missing_ok=True)
        await asyncio.to_thread(local_state.remove_mark, self._database)
        self._configure()
        checkpoint_lock = await lock_checkpoints(self._database, self._checkpoint_limit_s)
        try:
            await asyncio.to_thread(begin_log, self._database)
            process = await spawn(
                self._argv,
                environment=replicating_environment(self._environment, self.current_url),
                pass_fds=[checkpoint_lock.fileno()],
            )
        finally:
            checkpoint_lock.release()  # Litestream has it now
        self._is_doubtful, self._is_to_blame = False, True  # only now: until here the doubt was of the one before
        self._watch, self._newest = self._watch.begin_again(), ""
        self._spawned.set()
        self._grant_permit()  # where it goes on under a prefix that has a full copy
        return process

    async def _keep_running(self, process: asyncio.subprocess.Process) -> None:
        """Pass on what Litestream prints; start another when it ends."""
        backoff_s = _FIRST_BACKOFF_S
        now_s = asyncio.get_running_loop().time
        while True:
            started_s = now_s()
            if process.stdout is not None:
                await follow(process.stdout, self._read_line)
            code = await process.wait()
            if self._ending.done():
                return
            if now_s() - started_s > _SETTLED_S or not self._is_to_blame:
                backoff_s = _FIRST_BACKOFF_S
            pause_s = backoff_s if self._is_to_blame or now_s() - started_s < _FIRST_BACKOFF_S else 0.0
            self._report("replicate.litestream_ended", code=code, again_in_s=pause_s)
            await self._pause(pause_s)
            backoff_s = min(backoff_s * 2, _LAST_BACKOFF_S)
            next_process = await self._start_another()
            if next_process is None:
                return
            self._process = process = next_process
            if not self._ending.done():
                self._report("replicate.litestream_started", replica=self.current_url)

    async def _start_another(self) -> asyncio.subprocess.Process | None:
        """Start another Litestream, under a prefix of its own, as soon as possible; None when the end comes before."""
        is_reported = False
        while not self._ending.done():
            try:
                if self._must_mend:
                    await asyncio.to_thread(mend, self._database)
                    self._must_mend = False
                await self.lease.begin_prefix_of_same_epoch()
                await asyncio.to_thread(local_state.remove, self._database)
                if self._ending.done():
                    return None
                process = await self._spawn()
                if self._ending.done():  # the end came meanwhile, and knew of the process before only
                    kill_group(process.pid)
                return process
            except LeaseLost as error:
                self._fence(str(error))
            except (PostroomError, OSError, apsw.Error) as error:  # the bucket is away, or the disk is full
                if not is_reported:
                    self._report("replicate.waiting", reason=str(error))
                is_reported = True
                await self._pause(_AGAIN_S)
        return None
