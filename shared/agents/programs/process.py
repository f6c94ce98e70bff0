"""A running program, held in: its pipes as streams, its end as an awaitable."""

import asyncio
import errno
import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from shared.agents.programs import pipes, syscalls
from shared.agents.programs.containment import Containment, ProgramCommand
from shared.agents.programs.holder import Holder
from shared.agents.programs.pipes import OurEnds, Streams
from shared.agents.programs.sandbox import Sandbox
from shared.agents.programs.sandboxes import Sandboxes

_LAST_WORDS_S = 1.0  # after the end, to read the rest of the output from the pipes


class Program:
    """One program, in a session of its own. ``end`` leaves no process of it."""

    def __init__(self, command: ProgramCommand, sandboxes: Sandboxes | None) -> None:
        self.streams = Streams()
        self._command = command
        self._sandboxes = sandboxes
        self._sandbox: Sandbox | None = None
        self._holder: Holder
        self._code: int | None = None
        self._is_killed = False
        self._over = asyncio.Event()
        self._closing: asyncio.TimerHandle | None = None

    @classmethod
    async def start(
        cls, command: ProgramCommand, held: Containment, *, line_limit: int, sandboxes: Sandboxes | None = None
    ) -> Self:
        """Start the program.

        Args:
            sandboxes: where a turn of the same session may have left one.

        Raises:
            OSError: the program can't be started; ``strerror`` says why.
        """
        _check(command.words[0], command.folder, command.environment)
        self = cls(command, sandboxes)
        connecting = asyncio.create_task(self.streams.connect(self._begin(held), line_limit))
        try:
            await asyncio.shield(connecting)
        except BaseException:
            self.kill()
            if self._sandbox is not None and sandboxes is not None:
                sandboxes.discard(self._sandbox)
            connecting.add_done_callback(lambda _: self.close())  # not half-way: a pipe without an owner stays open
            raise
        return self

    @property
    def pid(self) -> int:
        """Of the outermost process of what holds the program in."""
        return self._holder.pid

    @property
    def stdin(self) -> asyncio.StreamWriter:
        """The program's standard input."""
        return self.streams.stdin

    @property
    def stdout(self) -> asyncio.StreamReader:
        """The program's standard output."""
        return self.streams.stdout

    @property
    def stderr(self) -> asyncio.StreamReader:
        """The program's standard error."""
        return self.streams.stderr

    async def wait(self) -> int | None:
        """The exit code, or the negative number of the signal; None if it was killed, or never started."""
        await self._over.wait()
        return self._code

    def kill(self) -> None:
        """Begin to end everything that the program started."""
        self._is_killed = True
        self._holder.kill()

    async def end(self) -> None:
        """End everything that the program started; return when it is gone."""
        self.close()
        if self._sandbox is not None and self._sandboxes is not None:
            await self._end_turn(self._sandbox, self._sandboxes)
        else:
            self._holder.kill()
            await self._holder.gone()

    async def _end_turn(self, sandbox: Sandbox, sandboxes: Sandboxes) -> None:
        is_clean = False
        try:
            is_clean = self._over.is_set() and not self._is_killed and await sandbox.clean()
        finally:  # also when it is cancelled
            if is_clean:
                sandboxes.keep(self._command, sandbox)
            else:
                sandbox.holder.kill()
                ending = sandboxes.discard(sandbox)
        if not is_clean:
            await asyncio.shield(ending)

    def close(self) -> None:
        """Close our ends of the pipes."""
        if self._closing is not None:
            self._closing.cancel()
        self.streams.close()

    def _begin(self, held: Containment) -> OurEnds:
        if self._sandboxes is not None and (sandbox := self._sandboxes.take(self._command, held)) is not None:
            return self._begin_turn(sandbox, self._sandboxes)
        ours, theirs = pipes.pipes()
        syscall_filter = syscalls.opened(makes_sandboxes=self._command.makes_sandboxes)
        try:
            words = held.wrapped(self._command)
            further = [syscall_filter] if held.is_leash else []
            self._holder = Holder.start(words, self._command.environment, theirs, self._hear, further=further)
        except BaseException:
            ours.close()
            raise
        finally:
            pipes.close(*theirs, syscall_filter)
        return ours

    def _begin_turn(self, sandbox: Sandbox, sandboxes: Sandboxes) -> OurEnds:
        self._sandbox, self._holder = sandbox, sandbox.holder
        try:
            return sandbox.run(self._command, self._hear)
        except BaseException:
            sandboxes.discard(sandbox)
            raise

    def _hear(self, said: bytes | None) -> None:
        """The exit code, or None: the end came without one."""
        if self._over.is_set():
            return
        self._code = _exit_code(said, self._holder.code)
        self._over.set()
        if self._sandbox is None:
            self._holder.hang_up()  # and everything else of the program ends
        # A supervisor that the program killed leaves processes that hold the pipes open.
        self._closing = asyncio.get_running_loop().call_later(_LAST_WORDS_S, self.close)


def _exit_code(said: bytes | None, outermost: int) -> int | None:
    """As it was reported; else the signal that killed the outermost process, and so the program."""
    if said == b"lost":  # what waited for it was killed
        return -signal.SIGKILL
    if said is not None and said.isdigit():
        code = int(said)
        return code if code <= 128 else 128 - code
    if outermost < 0:
        return outermost
    return 128 - outermost if outermost > 128 else None


def _check(name: str, folder: Path, environment: Mapping[str, str]) -> None:
    """Raise what the kernel would answer, because here it would answer the first process."""
    found = folder / name if "/" in name else shutil.which(name, path=environment.get("PATH", os.defpath))
    if found is None or not os.path.exists(found):  # noqa: PTH110 - a path of either type
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    if not os.access(found, os.X_OK) or os.path.isdir(found):  # noqa: PTH112
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
