"""Litestream, kept up and watched for as long as the replica's lease is ours.

A Litestream that runs is no proof that it replicates. Every ten seconds it is asked, over its control socket, to bring
everything to the replica; what it answers is told. One failure is mended here (see ``mend``); of any other it is told
when it began, and when it was over. Litestream is started again when it ends, and a bucket that is away is waited for:
the rows that are not in the replica yet are on this disk only, so nothing here ever gives up.

What Litestream 0.5.17 sends after it was killed, or could not write its own files (a full disk), may lack pages,
although it says that it has caught up: it goes on from its notes, or from the newest file in the bucket, and does not
see that the log began anew meanwhile, or that what answered was no bucket. So may what it sends after a writer died in
a commit (``shared/db/engine/write_gate.py``). So each Litestream that follows another begins with a whole copy under a
prefix of its own, where nothing can mislead it; and one that may be misled is killed at once. Only the first one goes
on where another was, if that one ended in good order (``infra/litestream/local_state.py``).

Nobody else may checkpoint beside it (``shared/db/engine/checkpoints.py``): it inherits the lock that says so.

Only a restore proves what is in the bucket: now and then one is made and compared (``infra/litestream/verify.py``).
Where it differs, another Litestream begins with a whole copy too.

What Litestream calls replicated is acknowledged to people only with the keeper's permit
(``shared/replica/sync_permit.py``).
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import apsw

from infra.litestream import local_state, retention, verify
from infra.litestream.lease import Lease, LeaseLost, aside
from infra.litestream.restore_command import Facts, facts_of, is_missing
from infra.processes import follow, kill_group, spawn, stop
from shared.core import clock
from shared.core.errors import InUse, NotReplicated, PostroomError
from shared.db.engine import checkpoints, write_gate
from shared.db.engine.connection import open_connection, rows, scalar
from shared.db.engine.lock import WorkerLock
from shared.replica import sync_permit
from shared.replica.lease_record import at
from shared.replica.sync import sync

CANT_READ = "db sync"  # Litestream's word for trouble between it and the database, and not with the replica
_OWN_TROUBLE = ('"msg":"sync error"', '"msg":"disk full')  # in its log: with the database or its own files, likewise
_CANT_ASK = "check database behind replica"  # with the replica all the same, and before it has begun

_LOOK_EVERY_S, _LOOK_LIMIT_S = 10.0, 8.0
_FIRST_BACKOFF_S, _LAST_BACKOFF_S = 0.5, 30.0
_SETTLED_S = 30.0  # a Litestream that ran so long had begun well
_STOP_FOR_MENDING_S = 5.0
_STOP_LIMIT_S = 50.0  # Litestream's own is 30 s, the container's 60 s
_RELEASE_LIMIT_S = 3.0
_CHECKPOINT_LIMIT_S = _GATE_LIMIT_S = 10.0
_AGAIN_S = 1.0  # between two attempts to begin again, or to renew
_RENEWALS = 4  # in the time that the lease lasts
_REMOVE_EVERY_S = 60.0
_WATCH_EVERY_S = 0.05  # writers wait for it
_COMPARE_AGAIN_S = 3600.0  # where something was wrong, once


class Fenced(LeaseLost):
    """Replication has ended here: the lease is somebody else's."""


def mend(database: Path) -> None:
    """Bring what is only in the WAL into the file, while Litestream, which holds that up, is away.

    After the crash of a writer, Litestream 0.5.17 may decide to copy the whole database, look for a page in the file
    that is still in the WAL only, and fail so for ever: "write ltx from db: read database page 136: EOF". PASSIVE waits
    for nobody and holds up nobody; Litestream then makes its copy.
    """
    conn = open_connection(database)
    try:
        rows(conn, "PRAGMA wal_checkpoint(PASSIVE)")
    finally:
        conn.close()


def begin_log(database: Path) -> None:
    """Write a page to the log: a Litestream that starts then keeps others from beginning it anew under its first copy.

    It reads the log for that. With all of it in the database already, its read transaction would look at that alone,
    and keep nobody from writing over what it is about to read.

    Raises:
        InUse: a process stays in the midst of a transaction.
    """
    if is_missing(database):
        return
    with write_gate.forgetting(database, _GATE_LIMIT_S):
        conn = open_connection(database)
        try:
            rows(conn, f"PRAGMA user_version = {scalar(conn, 'PRAGMA user_version')}")
        finally:
            conn.close()


def is_own_trouble(line: str) -> bool:
    """Whether Litestream says in its log that it could not read the database, or write its own files."""
    return any(trouble in line for trouble in _OWN_TROUBLE) and _CANT_ASK not in line


class Keeper:
    """One Litestream process after another, on one database, for as long as the lease is ours.

    Args:
        argv: the program, with the configuration that names the database, *control*, and ``POSTROOM_REPLICA_URL``.
        replica: the URL; Litestream's environment names the lease's present place below it.
        lease: taken, and kept by this from now on.
        tell: gets what happened: the name of the event, and facts. ``infra/litestream/replicate.py`` has its names.
        on_line: gets what Litestream says; by default, that goes where our own output goes.
        kept_ms: for how long earlier places stay (``infra/litestream/retention.py``); 0: for ever.
        verify_ms: how often a restore is compared with the database (``infra/litestream/verify.py``); 0: never.
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
        tell: Callable[..., None],
        on_line: Callable[[str], None] = lambda line: print(line, flush=True),  # noqa: T201 - it is Litestream's log
        stop_limit_s: float = _STOP_LIMIT_S,
        kept_ms: int = 0,
        verify_ms: int = 0,
    ) -> None:
        self.control = control
        self.lease = lease
        self.is_behind = False  # it runs, and yet what is committed does not reach the bucket
        self._replica = replica
        self._argv = argv
        self._environment = environment
        self._database = database
        self._tell = tell
        self._on_line = on_line
        self._stop_limit_s = stop_limit_s
        self._kept_ms = kept_ms
        self._verify_ms = verify_ms
        self._not_verified: str | None = None  # why, as it was last told
        self._process: asyncio.subprocess.Process | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._must_mend = False
        self._is_doubtful = False  # what it sends may lack something
        self._has_blame = True  # for its own end
        self._spawned = asyncio.Event()
        self._ending: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process and self._process.returncode is None else None

    @property
    def place(self) -> str:
        """The URL of the present place: where the newest copy is, or is about to be."""
        return at(self._replica, self.lease.pointer.place.prefix)

    async def start(self) -> None:
        """Start, and go on by itself from here."""
        self._process = await self._spawn()
        works = [
            *(self._keep(self._process), self._begin_on(), self._look_on(), self._watch_on()),
            *(self._renew_on(), self._remove_on()),
        ]
        if self._verify_ms:
            works.append(self._verify_on())
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
        """Have everything committed so far brought to the replica; None when it is there, else why not."""
        try:
            await sync(self.control, self._database, limit_s)
        except NotReplicated as error:
            return str(error)
        return None

    async def stop(self) -> int:
        """End after a last sync, which Litestream makes at SIGTERM, and give the lease back; Litestream's code."""
        self._end()
        for task in self._tasks[1:]:
            task.cancel()
        await asyncio.gather(*self._tasks[1:], return_exceptions=True)
        if self._process is not None:
            await stop(self._process, timeout_s=self._stop_limit_s)
        await asyncio.gather(*self._tasks[:1])
        code = (self._process.returncode or 0) if self._process is not None else 0
        sync_permit.withdraw(self.control)
        if code == 0 and not self._is_doubtful and not write_gate.look(self._database):
            await asyncio.to_thread(local_state.vouch, self._database)
        self.control.unlink(missing_ok=True)
        if not self._lost.done():
            with contextlib.suppress(PostroomError, TimeoutError):  # then it runs out by itself
                facts = await aside(self._facts)
                await asyncio.wait_for(self.lease.release(facts.mark or None), _RELEASE_LIMIT_S)
        return code

    async def look(self, limit_s: float = _LOOK_LIMIT_S) -> str | None:
        """One look: tell what changed, and mend what can be mended. Why it is behind, or None."""
        problem = await self.sync(limit_s)
        was_behind, self.is_behind = self.is_behind, problem is not None
        if problem is None:
            if was_behind:
                self._tell("replicate.caught_up")
        elif not was_behind:
            self._tell("replicate.behind", reason=problem)
        elif CANT_READ in problem:
            self._tell("replicate.mending", reason=problem)
            self._must_mend = True
            await self._stop_litestream()
        return problem

    async def _stop_litestream(self) -> None:
        """``_keep`` starts it again."""
        if self._process is not None:
            await stop(self._process, timeout_s=_STOP_FOR_MENDING_S)

    def _listen(self, line: str) -> None:
        self._on_line(line)
        if is_own_trouble(line):
            self._doubt(line[:500])

    def _doubt(self, reason: str) -> None:
        """What it sends may lack something: kill it, at once, for the next moment it may say that it has caught up."""
        if not self._is_doubtful:
            self._is_doubtful = True
            if not self._ending.done():
                self._tell("replicate.doubtful", reason=reason)
                self._kill()

    def _permit(self) -> str | None:
        """Let others rely on Litestream for as long as the lease is surely ours; why they can't be told so, or None."""
        if self.lease.pointer.is_begun and not self._is_doubtful and not self._ending.done():
            try:
                sync_permit.give(self.control, self.lease.until_s)
            except OSError as error:  # the disk is full: the last one runs out
                return f"nobody here can be told that it is ours: {error}"
        return None

    def _kill(self) -> None:
        try:
            sync_permit.withdraw(self.control)
        finally:
            if self._process is not None and self._process.returncode is None:
                kill_group(self._process.pid)

    async def _begin_on(self) -> None:
        """Note in the pointer when a place has its first whole copy; until then readers take the state before."""
        while True:
            await self._spawned.wait()
            self._spawned.clear()
            pause_s = 0.01
            while not self.lease.pointer.is_begun and not await self._begin():
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 1.5, 1.0)

    async def _begin(self) -> bool:
        place = self.lease.pointer.place
        if is_missing(self._database) or await self.sync(_LOOK_LIMIT_S) is not None:
            return False
        facts = await aside(self._facts)  # on a first start the database, which came later, names the epoch
        try:
            await self.lease.begun(place, facts.epoch)
        except LeaseLost as error:
            self._fence(str(error))
        except PostroomError:
            return False
        self._permit()
        if self.lease.pointer.is_begun:
            self._tell("replicate.begun")
        return True

    async def _look_on(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            if not self._must_mend:
                await self.look()

    async def _renew_on(self) -> None:
        is_told = False
        pause_s = self.lease.ttl_ms / 1000 / _RENEWALS
        while True:
            await asyncio.sleep(min(pause_s, _AGAIN_S) if is_told else pause_s)
            problem = await self._renew()
            if self._ending.done():
                return
            if problem is not None and not is_told:
                self._tell("replicate.lease_unsure", reason=problem)
            elif problem is None and is_told:
                self._tell("replicate.lease_renewed")
            is_told = problem is not None

    async def _renew(self) -> str | None:
        """Renew the lease; why that is not known to have succeeded, or None. Losing it ends everything."""
        facts = await aside(self._facts)
        try:
            await self.lease.renew(mark=facts.mark)
        except LeaseLost as error:
            self._fence(str(error))
        except PostroomError as error:  # the store does not answer, or refuses: its lease may still be ours
            return str(error)
        return self._permit()

    async def _remove_on(self) -> None:
        is_told = False
        while True:
            await asyncio.sleep(_REMOVE_EVERY_S)
            problem = await self.remove()
            if problem is not None and not is_told:
                self._tell("replicate.cant_remove", reason=problem)
            is_told = problem is not None

    async def remove(self) -> str | None:
        """Remove some of what is older than it is kept. Why that failed, or None; it may be tried again."""
        there = self.lease.pointer
        place = retention.removable(there, clock.now_ms(), self._kept_ms)
        if place is None:
            return None
        try:
            if await self.lease.look(lambda store: retention.remove_some(store, there, place)):
                await self.lease.forget(place)
                self._tell("replicate.removed", replica=at(self._replica, place.prefix))
        except LeaseLost as error:
            self._fence(str(error))
        except (PostroomError, OSError, ValueError) as error:
            return str(error)
        return None

    async def _watch_on(self) -> None:
        while True:
            await asyncio.sleep(_WATCH_EVERY_S)
            with contextlib.suppress(OSError):  # no file can be opened just now
                if write_gate.look(self._database):
                    self._has_blame = False
                    self._doubt("a process died in a commit")

    async def _verify_on(self) -> None:
        await asyncio.to_thread(verify.clear, self._database)
        period_s = self._verify_ms / 1000
        was_equal, pause_s = True, period_s
        while True:
            await asyncio.sleep(pause_s)
            if self.is_behind or self._is_doubtful or not self.lease.pointer.is_begun:
                pause_s = min(period_s, _LOOK_EVERY_S)
                continue
            is_equal = await self.verify()
            is_news = was_equal and not is_equal
            was_equal, pause_s = is_equal, min(period_s, _COMPARE_AGAIN_S) if is_news else period_s

    async def verify(self) -> bool:
        """Compare the database with what the replica restores to, and tell; where they differ, begin anew."""
        event, facts = await verify.apart(self._database, self._replica, self.control, self._environment)
        if event == verify.EQUAL:
            self._not_verified = None
            self._tell("replicate.verified", **facts)
        elif event == verify.DIFFERS:
            self._tell("replicate.differs", **facts)
            self._not_verified = None
            self._is_doubtful = True
            self._kill()
        elif (reason := str(facts.get("reason"))) != self._not_verified:
            self._not_verified = reason
            self._tell("replicate.not_verified", **facts)
        return event == verify.EQUAL

    def _fence(self, reason: str) -> None:
        """End replication at once, without a last sync."""
        self._end()
        self._kill()
        self._tell("replicate.fenced", reason=reason)
        if not self._lost.done():
            self._lost.set_exception(Fenced(reason))
            self._lost.exception()  # whoever waits gets it, nobody has to
        for task in self._tasks[1:]:
            if task is not asyncio.current_task():
                task.cancel()

    def _facts(self) -> Facts:
        try:
            return Facts(None, 0) if is_missing(self._database) else facts_of(self._database)
        except PostroomError:
            return Facts(None, 0)

    def _end(self) -> None:
        if not self._ending.done():
            self._ending.set_result(None)

    async def _pause(self, seconds: float) -> None:
        """Unless the end comes before."""
        await asyncio.wait([self._ending], timeout=seconds)

    async def _spawn(self) -> asyncio.subprocess.Process:
        sync_permit.withdraw(self.control)
        self.control.unlink(missing_ok=True)
        await asyncio.to_thread(local_state.open_again, self._database)
        right = await self._right_to_checkpoint()
        try:
            await asyncio.to_thread(begin_log, self._database)
            process = await spawn(
                self._argv,
                environment={**self._environment, "POSTROOM_REPLICA_URL": self.place},
                pass_fds=[right.fileno()],
            )
        finally:
            right.release()  # it has it now
        self._is_doubtful, self._has_blame = False, True  # only now: until here the doubt was of the one before
        self._spawned.set()
        self._permit()  # where it goes on in a place that has begun
        return process

    async def _right_to_checkpoint(self) -> WorkerLock:
        """When whoever checkpoints at the moment is done."""
        right = checkpoints.lock(self._database)
        try:
            await asyncio.wait_for(right.acquire(), _CHECKPOINT_LIMIT_S)
        except TimeoutError:
            raise InUse(f"another Litestream runs on {self._database}: end it first") from None
        return right

    async def _keep(self, process: asyncio.subprocess.Process) -> None:
        """Hand over what it says; start it again when it ends."""
        backoff_s = _FIRST_BACKOFF_S
        clock = asyncio.get_running_loop().time
        while True:
            started = clock()
            if process.stdout is not None:
                await follow(process.stdout, self._listen)
            code = await process.wait()
            if self._ending.done():
                return
            if clock() - started > _SETTLED_S or not self._has_blame:
                backoff_s = _FIRST_BACKOFF_S
            pause_s = backoff_s if self._has_blame or clock() - started < _FIRST_BACKOFF_S else 0.0
            self._tell("replicate.litestream_ended", code=code, again_in_s=pause_s)
            await self._pause(pause_s)
            backoff_s = min(backoff_s * 2, _LAST_BACKOFF_S)
            followed = await self._follow_up()
            if followed is None:
                return
            self._process = process = followed
            if not self._ending.done():
                self._tell("replicate.litestream_started", replica=self.place)

    async def _follow_up(self) -> asyncio.subprocess.Process | None:
        """Another Litestream, in a place of its own, as soon as that can be; None when the end comes before."""
        is_told = False
        while not self._ending.done():
            try:
                if self._must_mend:
                    await asyncio.to_thread(mend, self._database)
                    self._must_mend = False
                await self.lease.begin_again()
                await asyncio.to_thread(local_state.forget, self._database)
                if self._ending.done():
                    return None
                process = await self._spawn()
                if self._ending.done():  # it came meanwhile, and whoever ended us knew of the one before only
                    kill_group(process.pid)
                return process
            except LeaseLost as error:
                self._fence(str(error))
            except (PostroomError, OSError, apsw.Error) as error:  # the bucket is away, or the disk is full
                if not is_told:
                    self._tell("replicate.waiting", reason=str(error))
                is_told = True
                await self._pause(_AGAIN_S)
        return None
