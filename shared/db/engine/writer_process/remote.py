"""A separate process that does one kind of database work, for a function that stores more than one core can.

Python runs one thread at a time, so a storing thread and the event loop share one core. This process has an interpreter
of its own::

    function ── the jobs of one turn of the event loop ──> writer process: one transaction for all that have come
             <───────────── their results ──────────────

The runner forks it while the function has one thread and no open files. Without that fork, as in the server of
functions-framework, the function's ``Writer`` does the work in its thread.

It ends with the function: it ignores signals, and reads until the function's end of the socket is closed. If it is
killed earlier, the ``Writer`` does the unanswered jobs, and new ones until another process is ready. The same happens
if the process hangs, stopped or in a disk call: it is killed after a time. A process that can't leave a disk call ends
after that call. What it had committed is not stored twice, because of unique keys.
"""

import asyncio
import contextlib
import gc
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar, cast

from shared.core import logs
from shared.db.engine.group_commit import Writer, settle
from shared.db.engine.writer_process.child import STOPS, Messages, become, call, framed

T = TypeVar("T")

_AT_ONCE = 8  # so many jobs do not wait for the end of the turn: the process works while others are parsed
_END_LIMIT_S = 1.0
_PATIENCE_S = 5.0  # less than the function has for a request, more than a slow disk takes
_REAP_EVERY_S = 0.1
STOPPED = {"T": "it is stopped, as by SIGSTOP", "t": "a debugger has stopped it"}
ON_THE_DISK = {"D": "it waits for the disk"}

log = logs.get()


class _Child(NamedTuple):
    pid: int
    sock: socket.socket


class WriterProcess:
    """The process, from its fork until a ``RemoteWriter`` takes it.

    A function that wants one has it in its module as ``writer_process``; the runner looks for that name.
    """

    def __init__(self) -> None:
        self._child: _Child | None = None
        self._spawn: Callable[[socket.socket], int] | None = None

    def fork(
        self, on_start: Callable[[], None] = lambda: None, *, spawn: Callable[[socket.socket], int] | None = None
    ) -> None:
        """Fork this process, which has one thread and has not opened the database; the fork calls *on_start*.

        Args:
            spawn: starts another writer process later, when this process can't be forked any more. It takes an end of a
                socket for ``child.become``, and returns the process id.
        """
        self._spawn = spawn
        ours, theirs = socket.socketpair()
        sys.stdout.flush()
        gc.collect()  # here, because a collection in the fork would copy every page that it visits
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        pid = os.fork()
        if pid == 0:
            become(theirs, on_start, mask)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        theirs.close()
        self._child = _Child(pid, ours)

    def take(self) -> _Child | None:
        """Hand over the process to its user; None: it was not forked, or was taken before."""
        child, self._child = self._child, None
        return child

    @property
    def can_be_replaced(self) -> bool:
        return self._spawn is not None

    def again(self) -> _Child | None:
        """Another process in place of the one that ended; None: it can't be started."""
        if self._spawn is None:
            return None
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                return _Child(self._spawn(theirs), ours)
            except OSError:
                log.exception("writer_process.not_started")
                ours.close()
                return None


class RemoteWriter(asyncio.Protocol, Generic[T]):
    """Does *work* in the writer process, or by *writer* where there is none; for one event loop.

    Args:
        work: takes a connection inside a transaction, and the arguments of ``submit``. It may be done twice, also after
            its commit: a process that was killed can't say whether it had committed.
        on_end: called when the process has ended too early. It may have committed work without an answer.
        patience_s: how long a job waits for a process that hangs.
    """

    def __init__(
        self,
        process: WriterProcess,
        path: Path,
        work: Callable[..., T],
        *,
        writer: Writer,
        on_end: Callable[[], None] = lambda: None,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        self._problem: str | None = None
        self._hung: dict[int, str] = {}  # given up and not reaped yet, with their problems
        self._patience_s = patience_s
        self._is_watched = False
        self._path = path
        self._work = work
        self._writer = writer
        self._on_end = on_end
        self._process = process
        self._child = process.take()
        self._is_ready = True  # a fork is; another process loads first
        self._may_be_replaced = process.can_be_replaced  # a later one only if it did a job: the next would do no better
        self._here = 0  # jobs that ``writer`` has
        self._transport: asyncio.WriteTransport | None = None
        self._connecting: asyncio.Task[Any] | None = None
        self._asked: deque[_Asked[T]] = deque()  # and not answered; in order
        self._new: list[_Asked[T]] = []  # of this turn of the event loop
        self._answers = Messages()
        self._closed: asyncio.Future[None] | None = None

    def submit(self, *arguments: Any) -> "asyncio.Future[T]":
        """Do the work with *arguments*; the future has the result once it is on the disk.

        The caller may cancel the future, but the work may still be done. If the work fails, nothing of it is kept, and
        the future has its error. It can also have the error of the commit of its group.
        """
        if self._child is None or not self._is_ready or self._closed is not None:
            return self._do_here(arguments)
        loop = asyncio.get_running_loop()
        asked = _Asked(arguments, loop.create_future())
        self._asked.append(asked)
        self._watch()
        if not self._new:
            loop.call_soon(self._send_new)
        self._new.append(asked)
        if len(self._new) >= _AT_ONCE:
            self._send_new()
        return asked.future

    async def close(self) -> None:
        """Let the process finish what it has, and end."""
        if self._child is None:
            return
        self._closed = asyncio.get_running_loop().create_future()
        if not self._is_ready:
            os.kill(self._child.pid, signal.SIGKILL)  # it has nothing to finish
        self._connect()
        if self._transport is not None:
            self._send_new()  # of this turn
            self._transport.write_eof()
        await asyncio.wait({self._closed}, timeout=_END_LIMIT_S)
        if not self._closed.done():
            log.warning("writer_process.slow", pid=self._child.pid, reason="it waits for the database or the disk")
            self._child = None  # it ends with this function; what it has not stored is not confirmed
            if self._transport is not None:
                self._transport.abort()

    # -- the connection ------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        if self._connecting is None and self._child is not None:
            connecting = asyncio.get_running_loop().create_unix_connection(lambda: self, sock=self._child.sock)
            self._connecting = asyncio.ensure_future(connecting)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)
        self._transport.set_write_buffer_limits(0)  # uvloop would else wait for the end of the turn
        self._transport.write(framed((self._path, self._work)))
        self._send_new()
        if self._closed is not None:
            self._transport.write_eof()

    def _send_new(self) -> None:
        if self._transport is None:
            self._connect()
            return
        if not self._new or self._here:  # they went with the connection, or before a stop; or what came before is there
            return
        new, self._new = self._new, []
        try:
            message = framed([asked.arguments for asked in new])
        except Exception:  # noqa: BLE001 - whatever can't be pickled is still to be stored
            for _ in new:
                self._asked.pop()
            self._hand_over(new)
        else:
            self._transport.write(message)

    def data_received(self, data: bytes) -> None:
        if not self._is_ready and self._child is not None:
            self._is_ready = True
            log.warning("writer_process.replaced", pid=self._child.pid)
        for answers in self._answers.read(data):
            self._may_be_replaced = self._may_be_replaced or (bool(answers) and self._process.can_be_replaced)
            for result, error in answers:
                settle(self._asked.popleft().future, result, error)

    # -- a process that hangs ------------------------------------------------------------------------------------------

    @property
    def problem(self) -> str | None:
        """Why the process stores nothing; None while it does, and once it has ended."""
        for problem in self._hung.values():
            return problem
        if self._problem is not None or self._child is None:
            return self._problem
        reason = why_it_hangs(self._child.pid, STOPPED)
        return reason and f"the writer process (pid {self._child.pid}) stores nothing: {reason}"

    def _watch(self) -> None:
        """Check the process when its oldest job has waited for half of the patience."""
        if not self._is_watched and self._asked:
            self._is_watched = True
            asyncio.get_running_loop().call_later(self._patience_s / 2, self._look, self._asked[0], None)

    def _look(self, first: "_Asked[T]", reason: str | None) -> None:
        """Kill the process if it has not answered *first* and hangs, for the same *reason* as at the last look."""
        self._is_watched, self._problem = False, None
        if self._child is None:
            return
        pid = self._child.pid
        found = why_it_hangs(pid, STOPPED | ON_THE_DISK) if self._asked and self._asked[0] is first else None
        if found is None:
            self._watch()
            return
        self._problem = f"the writer process (pid {pid}) stores nothing: {found}"
        if found != reason:
            self._is_watched = True
            asyncio.get_running_loop().call_later(self._patience_s / 2, self._look, first, found)
        else:
            self._give_up(pid, found)

    def _give_up(self, pid: int, reason: str) -> None:
        log.error(
            "writer_process.hung",
            pid=pid,
            waiting=len(self._asked),
            reason=reason,
            consequence=f"it is killed; {self._consequence}",
        )
        os.kill(pid, signal.SIGKILL)
        self._hung[pid], self._problem = self._problem or reason, None
        if self._transport is not None:
            self._transport.abort()  # its own end stays open for as long as the disk keeps it
        else:
            self.connection_lost(None)

    def _reap(self, pid: int) -> None:
        """The problem ends with the process, as do its transaction and its locks."""
        if os.waitpid(pid, os.WNOHANG)[0] == 0:
            asyncio.get_running_loop().call_later(_REAP_EVERY_S, self._reap, pid)
        else:
            del self._hung[pid]

    @property
    def _consequence(self) -> str:
        until = "another process is ready" if self._may_be_replaced else "this function is started again"
        return f"nothing is lost; a thread stores, more slowly, until {until}"

    def connection_lost(self, _: Exception | None) -> None:
        """The process has ended, and its transaction too; or it was given up."""
        if self._child is None:
            return
        pid, sock = self._child
        self._child = self._transport = self._connecting = None
        with contextlib.suppress(OSError):  # nearly always it has closed its end
            sock.shutdown(socket.SHUT_RDWR)  # otherwise an answer could not be read: it ends at the end of its input
        if pid in self._hung:
            self._reap(pid)
        else:
            status = os.waitpid(pid, 0)[1]  # it is only giving its memory back
            if self._closed is None:
                log.error(
                    "writer_process.ended",
                    pid=pid,
                    code=os.waitstatus_to_exitcode(status),
                    consequence=self._consequence,
                )
        if self._closed is not None:
            self._closed.set_result(None)
        self._new.clear()
        left = list(self._asked)
        self._asked.clear()
        self._hand_over(left)
        if self._closed is None:
            self._on_end()
            self._replace()

    def _replace(self) -> None:
        """Start another process. Until it is ready, the writer does all work here; what comes then waits for that."""
        if self._may_be_replaced and (child := self._process.again()) is not None:
            self._child, self._is_ready, self._may_be_replaced, self._answers = child, False, False, Messages()
            self._connect()

    # -- without the process -------------------------------------------------------------------------------------------

    def _do_here(self, arguments: tuple[Any, ...]) -> "asyncio.Future[T]":
        self._here += 1
        future = self._writer.submit(partial(call, self._work, arguments))
        future.add_done_callback(self._done_here)
        return future

    def _done_here(self, _: "asyncio.Future[T]") -> None:
        self._here -= 1
        if not self._here and self._new:
            self._send_new()

    def _hand_over(self, left: Sequence["_Asked[T]"]) -> None:
        """Let the writer do this work, in order."""
        for asked in left:
            self._do_here(asked.arguments).add_done_callback(partial(_pass_on, asked.future))


class _Asked(NamedTuple, Generic[T]):
    arguments: tuple[Any, ...]
    future: "asyncio.Future[T]"


def _pass_on(future: "asyncio.Future[T]", done: "asyncio.Future[T]") -> None:
    error = done.exception()
    settle(future, None if error is not None else done.result(), error)


def why_it_hangs(pid: int, reasons: Mapping[str, str]) -> str | None:
    """Which of the *reasons*, by states of the kernel, holds the process; None: it works, or waits for a lock."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:  # it has ended, or this system does not tell
        return None
    return reasons.get(state)
