"""The life of Litestream's process: it is started, doubted, ended and replaced, until the supervisor ends."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import apsw

from infra.litestream.launch import LitestreamLaunch
from infra.litestream.supervision.doubt import Backoff, Doubt
from infra.litestream.supervision.trouble_report import TroubleReport
from infra.litestream.trouble_words import is_own_trouble
from infra.processes import follow, kill_group, stop
from shared.core.errors import PostroomError
from shared.db.replica import sync_permit

_AGAIN_S = 1.0  # between two attempts to start Litestream
_STOP_FOR_MENDING_S = 5.0


class LitestreamLife:
    """Runs one Litestream process after another.

    Args:
        url: the destination of the next process.
        make_way: prepares the start of the next process after one with this doubt.
        on_start: called when a process has started.
        report: as of the supervisor.
        on_line: called with each line that Litestream prints.

    Attributes:
        process: the running process, or the last one.
        doubt: what is held against it.
        may_follow: cleared while no other process may follow the running one.
    """

    def __init__(
        self,
        launch: LitestreamLaunch,
        url: Callable[[], str],
        *,
        make_way: Callable[[Doubt], Awaitable[None]],
        on_start: Callable[[], None],
        report: Callable[..., None],
        on_line: Callable[[str], None],
    ) -> None:
        self.launch = launch
        self.process: asyncio.subprocess.Process | None = None
        self.doubt = Doubt.NONE
        self.may_follow = asyncio.Event()
        self.may_follow.set()
        self._url = url
        self._make_way = make_way
        self._on_start = on_start
        self._report = report
        self._on_line = on_line
        self._end = asyncio.Event()

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process and self.process.returncode is None else None

    @property
    def is_ending(self) -> bool:
        """Whether no other process follows the running one."""
        return self._end.is_set()

    def end(self) -> None:
        """Let no other process follow the running one."""
        self._end.set()
        self.may_follow.set()

    async def begin(self, running: asyncio.subprocess.Process | None) -> None:
        """Begin with the *running* process, or with a new one."""
        self.process = running or await self.launch.start(self._url())
        self._on_start()

    def hold(self, doubt: Doubt, reason: str | None = None) -> None:
        """Doubt the running process: kill it before it can report that it has caught up.

        Args:
            reason: to report; None: it was reported before.
        """
        if doubt <= self.doubt:
            return
        self.doubt = doubt
        if not self.is_ending:
            if reason is not None:
                self._report("replicate.doubtful", reason=reason)
            self.kill()

    def kill(self) -> None:
        """Kill the running process, without a last sync."""
        try:
            sync_permit.revoke(self.launch.control)
        finally:
            if (pid := self.pid) is not None:
                kill_group(pid)

    async def stop_unreadable(self) -> None:
        """Stop the running process, because it can't read the log any more."""
        self.doubt = max(self.doubt, Doubt.CANT_READ)
        sync_permit.revoke(self.launch.control)
        if self.process is not None:
            await stop(self.process, timeout_s=_STOP_FOR_MENDING_S)

    async def keep_running(self) -> None:
        """Pass on what Litestream prints; start another process when it ends."""
        backoff = Backoff()
        now_s = asyncio.get_running_loop().time
        while (process := self.process) is not None:
            started_s = now_s()
            if process.stdout is not None:
                await follow(process.stdout, self._hear)
            code = await process.wait()
            if self.is_ending:
                return
            pause_s, backoff = backoff.after(self.doubt, now_s() - started_s)
            self._report("replicate.litestream_ended", code=code, again_in_s=pause_s)
            await self._pause(pause_s)
            await self.may_follow.wait()
            if not await self._start_another():
                return
            if not self.is_ending:
                self._report("replicate.litestream_started", replica=self._url())

    def _hear(self, line: str) -> None:
        self._on_line(line)
        if is_own_trouble(line):
            self.hold(Doubt.SAID_TROUBLE, line[:500])

    async def _start_another(self) -> bool:
        """Start another process as soon as possible; False: the supervisor ended before."""
        waiting = TroubleReport(self._report, "replicate.waiting")
        while not self.is_ending:
            try:
                await self._make_way(self.doubt)
                if self.is_ending:
                    return False
                self.process = await self.launch.start(self._url())
            except (PostroomError, OSError, apsw.Error) as error:  # the bucket is away, or the disk is full
                waiting.see(str(error))
                await self._pause(_AGAIN_S)
                continue
            self.doubt = Doubt.NONE  # only now: until here the doubt was of the one before
            self._on_start()
            if self.is_ending:  # the end came meanwhile, and knew of the process before only
                kill_group(self.process.pid)
            return True
        return False

    async def _pause(self, seconds: float) -> None:
        """Sleep, or return early when the supervisor ends."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._end.wait()
