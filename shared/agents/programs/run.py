"""One run of a program for a turn: its lines, its limits, and the word for its end.

::

    async with ProgramRun(command, limits, containment) as run:
        await run.write(question, close=True)
        async for line in run.lines():
            ...                       # run.tool_began(), run.tool_ended(); after a result: await run.finish(); break
    run.ending

Leaving the block ends everything that the program started.
"""

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncGenerator, Callable
from typing import Self

from shared.agents.programs import memory
from shared.agents.programs.containment import Containment, ProgramCommand
from shared.agents.programs.disk import DiskWatch
from shared.agents.programs.limits import Ending, EndingWord, Limits
from shared.agents.programs.pace import Pace
from shared.agents.programs.process import Program
from shared.agents.programs.sandboxes import Sandboxes

LINE_LIMIT = 1024 * 1024  # bytes

_GRACE_S = 3.0  # from a result to the end of a program that does not end by itself
_LAST_WORDS_S = 1.0  # after its end, to read the rest of its standard error
_LOOKS_EVERY_S = 0.5
_STDERR_TAIL = 500  # characters kept for the operator


class ProgramRun:
    """See the module's docstring.

    Args:
        line_limit: bytes of one line of output.
        sandboxes: where a turn of the same session may have left its sandbox for this one.
    """

    def __init__(
        self,
        command: ProgramCommand,
        limits: Limits,
        containment: Containment,
        *,
        line_limit: int = LINE_LIMIT,
        sandboxes: Sandboxes | None = None,
    ) -> None:
        self.ending: Ending | None = None
        self._command = command
        self._limits = limits
        self._containment = containment
        self._line_limit = line_limit
        self._sandboxes = sandboxes
        self._tools = 0
        self._questions = 0
        self._has_result = False
        self._errors = b""

    async def __aenter__(self) -> Self:
        """Start the program.

        Raises:
            OSError: it can't be started; ``strerror`` says why.
        """
        self._began_ns = time.time_ns()
        self._program = await Program.start(
            self._command, self._containment, line_limit=self._line_limit, sandboxes=self._sandboxes
        )
        self._loop = asyncio.get_running_loop()
        self._disk = DiskWatch(self._command.writable, self._limits.disk_bytes, self._program.pid)
        self._since = self._loop.time()
        self._alarm = self._loop.call_later(self._patience_s, self._look_at_clock)
        self._stderr = asyncio.create_task(self._read_errors())
        self._looking = asyncio.create_task(self._look_at_size())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._alarm.cancel()
        self._looking.cancel()
        self._stderr.cancel()
        if self.ending is None:
            self.ending = Ending("stopped", "the program was stopped")
        ending = asyncio.ensure_future(self._end())
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            if not self._has_result:
                raise
            await ending  # which takes milliseconds: a result that was given counts, also when it is stopped now

    async def _end(self) -> None:
        await self._program.end()
        if self.ending is not None and self.ending.word == "disk_limit":
            await asyncio.to_thread(self._disk.undo, self._began_ns)

    async def write(self, data: bytes, *, close: bool = False) -> None:
        """Write to standard input. A program that does not read it does not fail the turn."""
        stdin = self._program.stdin
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            stdin.write(data)
            await stdin.drain()
        if close:
            stdin.close()

    async def lines(self, is_free: Callable[[bytes], bool] = lambda _: False) -> AsyncGenerator[bytes, None]:
        """Each line of standard output, with its end, until the program ends or a limit ends it: see ``ending``.

        Args:
            is_free: whether a line does not count as output, because it comes again in another one.
        """
        size = 0
        pace = Pace()
        try:
            async for line in self._program.stdout:
                size += 0 if is_free(line) else len(line)
                self._heard()
                if self.ending is not None:
                    return
                if size > self._limits.output_bytes:
                    what = f"the program wrote more than {self._limits.output_bytes} bytes"
                    self._stop("output_limit", self._limits.ended(what, "output_limit_bytes"))
                    return
                pace.begin()
                yield line
                await pace.rest()
        except ValueError:  # asyncio's word for a line beyond the limit
            self._stop("output_limit", f"the program wrote a line of more than {self._line_limit} bytes")
            return
        await self._end_by_itself()

    async def finish(self) -> None:
        """The program gave its result: let it end by itself for a while. The run has ended well, whatever it does.

        A cancellation cuts that while short, and goes no further: a turn that has its answer must not run again.
        """
        self._has_result = True
        self._alarm.cancel()
        self.ending = Ending("ended", "the program gave its result")
        self._program.stdin.close()
        draining = asyncio.create_task(self._drain())
        with contextlib.suppress(TimeoutError, asyncio.CancelledError):
            async with asyncio.timeout(_GRACE_S):
                await self._program.wait()
        draining.cancel()

    def tool_began(self) -> None:
        """The program calls a tool: from here on the limit of a tool call counts, until ``tool_ended``."""
        self._tools += 1
        self._since = self._loop.time()
        self._set_alarm()

    def tool_ended(self) -> None:
        """One call of a tool is over."""
        self._tools = max(0, self._tools - 1)
        self._since = self._loop.time()
        self._set_alarm()

    def question_began(self) -> None:
        """The program asks a person: its limits of time stand still until ``question_ended``."""
        self._questions += 1
        self._alarm.cancel()

    def question_ended(self) -> None:
        """One question has its answer, or needs none any more."""
        self._questions -= 1
        self._since = self._loop.time()
        self._set_alarm()

    # -- the end

    async def _end_by_itself(self) -> None:
        code = await self._program.wait()
        if self.ending is not None:
            return
        if code == 0:
            self.ending = Ending("ended", "the program ended")
            return
        said = await self._last_errors()
        if code is None:
            self.ending = Ending("not_started", f"the program could not be started: {said}")
        elif code < 0:
            word: EndingWord = "crashed" if code in _OWN_SIGNALS else "killed"
            self.ending = Ending(word, f"the program was ended by signal {-code}: {said}")
        else:
            reason = f"the program ended with code {code}: {said}{self._hint(code)}"
            self.ending = Ending("crashed", reason)

    def _hint(self, code: int) -> str:
        if code != 127 or not self._containment.is_leash:
            return ""
        return " (a program on the leash sees only the system, its folder and what 'readable' in its config names)"

    def _stop(self, word: EndingWord, reason: str) -> None:
        if self.ending is None:
            self.ending = Ending(word, reason)
            self._program.kill()

    # -- standard error

    async def _read_errors(self) -> None:
        while chunk := await self._program.stderr.read(4096):
            self._errors = (self._errors + chunk)[-4 * _STDERR_TAIL :]

    async def _last_errors(self) -> str:
        await asyncio.wait([self._stderr], timeout=_LAST_WORDS_S)
        return self._errors.decode("utf-8", "replace")[-_STDERR_TAIL:].strip() or "nothing on standard error"

    async def _drain(self) -> None:
        with contextlib.suppress(ValueError):
            while await self._program.stdout.read(65536):
                continue

    # -- limits

    @property
    def _patience_s(self) -> float:
        return (self._limits.tool_ms if self._tools else self._limits.idle_ms) / 1000

    def _heard(self) -> None:
        if not self._tools:
            self._since = self._loop.time()  # the alarm looks again when it rings

    def _set_alarm(self) -> None:
        self._alarm.cancel()
        if not self._questions and self.ending is None:
            self._alarm = self._loop.call_at(self._since + self._patience_s, self._look_at_clock)

    def _look_at_clock(self) -> None:
        if self._loop.time() < self._since + self._patience_s:
            self._set_alarm()
        elif self._tools:
            what = f"a tool call of the program took more than {self._patience_s:g} s"
            self._stop("tool_timeout", self._limits.ended(what, "tool_timeout_ms"))
        else:
            what = f"the program wrote nothing for {self._patience_s:g} s"
            self._stop("idle_timeout", self._limits.ended(what, "idle_timeout_ms"))

    async def _look_at_size(self) -> None:
        """Look now and then. The first look comes later too: most programs are gone by then."""
        while self.ending is None:
            await asyncio.sleep(_LOOKS_EVERY_S)
            if (
                memory.of_tree(self._program.pid, has_own_folders=self._containment.is_leash)
                > self._limits.memory_bytes
            ):
                limit_mb = self._limits.memory_bytes // 1024**2
                what = f"the program and what it started used more than {limit_mb} MB"
                self._stop("memory_limit", self._limits.ended(what, "memory_limit_mb"))
            elif await asyncio.to_thread(self._disk.is_over):
                limit_mb = self._limits.disk_bytes // 1024**2
                what = f"the program's folders used more than {limit_mb} MB"
                deleted = "what this turn wrote was deleted, the largest files first, until they used less"
                self._stop("disk_limit", f"{self._limits.ended(what, 'disk_limit_mb')}; {deleted}")


_OWN_SIGNALS = {-number for number in (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)}
