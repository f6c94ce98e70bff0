"""A process of its own that does one kind of work on the database, for a function that stores more than one core can.

Python runs one thread at a time. A thread that stores, and the event loop beside it, wait for each other at nearly
every statement: together they do no more than one core can. This process has an interpreter of its own::

    function ── the jobs of one turn of the event loop ──> writer process: one transaction for all that have come
             <───────────── their results ──────────────

The runner forks it while the function has one thread and has opened nothing. Where nobody does, as in the server of
functions-framework, the function's ``Writer`` does the work in its thread.

It ends with the function: no signal ends it, it reads until the function's end of the socket is closed. If it ends
earlier, killed say, the ``Writer`` does what it has not answered, and all that follows. So it does where the process
hangs, stopped or in a call of the disk: after a time it is killed.
"""

import asyncio
import contextlib
import gc
import os
import pickle
import signal
import socket
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar, cast

import apsw

from shared.core import logs
from shared.db.engine.group_commit import Writer, settle
from shared.db.engine.jobs import GROUP_LIMIT, Committer, Job

T = TypeVar("T")

_HEAD = 4  # bytes before each message: its length
_READ = 1 << 18
_AT_ONCE = 8  # so many jobs do not wait for the end of the turn: the process works while others are parsed
_END_LIMIT_S = 1.0
_PATIENCE_S = 5.0  # less than the function has for a request, more than a slow disk takes
_REAP_EVERY_S = 0.1
_GARBAGE_OBJECTS = 10_000  # new objects between garbage collections, as in the functions
_STOPPED = {"T": "it is stopped, as by SIGSTOP", "t": "a debugger holds it"}
_ON_THE_DISK = {"D": "it waits for the disk"}
_SIGNALS = (signal.SIGTERM, signal.SIGINT)

log = logs.get()


class _Child(NamedTuple):
    pid: int
    sock: socket.socket


class WriterProcess:
    """The process, from its fork until a ``RemoteWriter`` takes it.

    The module of a function that wants one has it as ``writer_process``; the runner looks for that name.
    """

    def __init__(self) -> None:
        self._child: _Child | None = None

    def fork(self, on_start: Callable[[], None] = lambda: None) -> None:
        """Fork this process, which has one thread and has not opened the database; the fork calls *on_start*."""
        ours, theirs = socket.socketpair()
        sys.stdout.flush()
        gc.collect()  # here, because a collection in the fork would copy every page that it visits
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        pid = os.fork()
        if pid == 0:
            _become(theirs, on_start, mask)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        theirs.close()
        self._child = _Child(pid, ours)

    def take(self) -> _Child | None:
        """The process, for the one that uses it from now on; None: nobody forked it, or it is taken."""
        child, self._child = self._child, None
        return child


class RemoteWriter(asyncio.Protocol, Generic[T]):
    """Does *work* in the writer process, or by *writer* where there is none; for one event loop.

    Args:
        work: takes a connection inside a transaction, and the arguments of ``submit``. It may be done twice, also after
            its commit: a process that was killed can't say whether it had committed.
        on_end: called when the process has ended before its time. It may have committed what nobody was told of.
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
        self._patience_s = patience_s
        self._is_watched = False
        self._path = path
        self._work = work
        self._writer = writer
        self._on_end = on_end
        self._child = process.take()
        self._transport: asyncio.WriteTransport | None = None
        self._connecting: asyncio.Task[Any] | None = None
        self._asked: deque[_Asked[T]] = deque()  # and not answered; in order
        self._new: list[_Asked[T]] = []  # of this turn of the event loop
        self._answers = _Messages()
        self._closed: asyncio.Future[None] | None = None

    def submit(self, *arguments: Any) -> "asyncio.Future[T]":
        """Do the work with *arguments*; its result is there once it is on the disk.

        The caller may give the future up: the work may be done all the same. The future has the error of the work, and
        then nothing of it is kept, or that of its group's commit.
        """
        if self._child is None or self._closed is not None:
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
        self._transport.write(_framed((self._path, self._work)))
        self._send_new()
        if self._closed is not None:
            self._transport.write_eof()

    def _send_new(self) -> None:
        if self._transport is None:
            self._connect()
            return
        if not self._new:  # they went with the connection, or before a stop
            return
        new, self._new = self._new, []
        try:
            message = _framed([asked.arguments for asked in new])
        except Exception:  # noqa: BLE001 - whatever can't be pickled is still to be stored
            for _ in new:
                self._asked.pop()
            self._hand_over(new)
        else:
            self._transport.write(message)

    def data_received(self, data: bytes) -> None:
        for answers in self._answers.read(data):
            for result, error in answers:
                settle(self._asked.popleft().future, result, error)

    # -- a process that hangs ------------------------------------------------------------------------------------------

    @property
    def problem(self) -> str | None:
        """Why the process stores nothing; None while it does, and once it has ended."""
        if self._problem is not None or self._child is None:
            return self._problem
        reason = _why_it_hangs(self._child.pid, _STOPPED)
        return reason and f"the writer process (pid {self._child.pid}) stores nothing: {reason}"

    def _watch(self) -> None:
        """Look at the process when the first of what it was asked has waited for half of the patience."""
        if not self._is_watched and self._asked:
            self._is_watched = True
            asyncio.get_running_loop().call_later(self._patience_s / 2, self._look, self._asked[0], None)

    def _look(self, first: "_Asked[T]", reason: str | None) -> None:
        """Kill the process if it has not answered *first* and hangs, for the same *reason* as at the last look."""
        self._is_watched, self._problem = False, None
        if self._child is None:
            return
        pid = self._child.pid
        found = _why_it_hangs(pid, _STOPPED | _ON_THE_DISK) if self._asked and self._asked[0] is first else None
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
            consequence="it is killed; nothing is lost, and a thread stores until this function is started again",
        )
        os.kill(pid, signal.SIGKILL)
        if self._transport is not None:
            self._transport.abort()  # its own end stays open for as long as the disk keeps it
        else:
            self.connection_lost(None)

    def _reap(self, pid: int) -> None:
        """The problem ends with the process, whose transaction and locks end with it too."""
        if os.waitpid(pid, os.WNOHANG)[0] == 0:
            asyncio.get_running_loop().call_later(_REAP_EVERY_S, self._reap, pid)
        else:
            self._problem = None

    def connection_lost(self, _: Exception | None) -> None:
        """The process has ended, which closes its end: nothing is in a transaction any more. Or it was given up."""
        if self._child is None:
            return
        pid, sock = self._child
        self._child = self._transport = None
        with contextlib.suppress(OSError):  # nearly always it has closed its end
            sock.shutdown(socket.SHUT_RDWR)  # otherwise an answer could not be read: it ends at the end of its input
        if self._problem is not None:
            self._reap(pid)
        else:
            status = os.waitpid(pid, 0)[1]  # it is only giving its memory back
            if self._closed is None:
                log.error(
                    "writer_process.ended",
                    pid=pid,
                    code=os.waitstatus_to_exitcode(status),
                    consequence="nothing is lost; until this function is started again, a thread stores, more slowly",
                )
        if self._closed is not None:
            self._closed.set_result(None)
        self._new.clear()
        left = list(self._asked)
        self._asked.clear()
        self._hand_over(left)
        if self._closed is None:
            self._on_end()

    # -- without the process -------------------------------------------------------------------------------------------

    def _do_here(self, arguments: tuple[Any, ...]) -> "asyncio.Future[T]":
        return self._writer.submit(partial(_call, self._work, arguments), repeatable=True)

    def _hand_over(self, left: Sequence["_Asked[T]"]) -> None:
        """Let the writer do this work, in its order."""
        for asked in left:
            self._do_here(asked.arguments).add_done_callback(partial(_pass_on, asked.future))


class _Asked(NamedTuple, Generic[T]):
    arguments: tuple[Any, ...]
    future: "asyncio.Future[T]"


def _pass_on(future: "asyncio.Future[T]", done: "asyncio.Future[T]") -> None:
    error = done.exception()
    settle(future, None if error is not None else done.result(), error)


def _call(work: Callable[..., T], arguments: tuple[Any, ...], conn: apsw.Connection) -> T:
    return work(conn, *arguments)


def _why_it_hangs(pid: int, reasons: Mapping[str, str]) -> str | None:
    """Which of the *reasons*, by states of the kernel, holds the process; None: it works, or waits for a lock."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:  # it has ended, or this system does not tell
        return None
    return reasons.get(state)


# -- messages ----------------------------------------------------------------------------------------------------------


def _framed(message: Any) -> bytes:
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return len(body).to_bytes(_HEAD) + body


class _Messages:
    """Reads messages from a stream of bytes."""

    def __init__(self) -> None:
        self._rest = b""

    def read(self, data: bytes) -> Iterator[Any]:
        """The messages that *data* completes."""
        self._rest += data
        while len(self._rest) >= _HEAD:
            end = _HEAD + int.from_bytes(self._rest[:_HEAD])
            if len(self._rest) < end:
                return
            body, self._rest = self._rest[_HEAD:end], self._rest[end:]
            yield pickle.loads(body)  # noqa: S301 - from this process's own fork


# -- in the process ----------------------------------------------------------------------------------------------------


def _become(sock: socket.socket, on_start: Callable[[], None], mask: set[Any]) -> NoReturn:
    """In the fork: keep the outputs and *sock*, work until its other end is closed, and exit."""
    code = os.EX_SOFTWARE
    try:
        for number in _SIGNALS:  # Ctrl-C and a stop of the whole service reach it too; the function decides
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        gc.freeze()  # also because an old object that becomes garbage would close a descriptor with its number
        gc.set_threshold(_GARBAGE_OBJECTS)
        _close_all_but(sock.fileno())
        on_start()
        with contextlib.suppress(ConnectionError):  # the function was killed
            _work(sock)
        code = os.EX_OK
    except BaseException:
        log.exception("writer_process.failed")
    finally:
        os._exit(code)


def _close_all_but(kept: int) -> None:
    for name in os.listdir("/dev/fd"):  # noqa: PTH208 - only the names
        if int(name) > 2 and int(name) != kept:
            with contextlib.suppress(OSError):  # that of the listing
                os.close(int(name))


def _work(sock: socket.socket) -> None:
    """Do the jobs that come. Those that came while others were committed share a transaction."""
    committer: Committer | None = None
    for messages in _reads(sock):
        if committer is None:
            (path, work), *messages = messages
            committer = Committer(path)
        asked = [arguments for message in messages for arguments in message]
        for start in range(0, len(asked), GROUP_LIMIT):
            group = [Job(partial(_call, work, each), repeatable=True) for each in asked[start : start + GROUP_LIMIT]]
            committer.do(group)
            errors = {job.error for job in group if job.error is not None}  # one, where the commit failed
            portable = {error: _portable(error) for error in errors}
            sock.sendall(_framed([(job.result, job.error and portable[job.error]) for job in group]))
    if committer is not None:
        committer.close()


def _reads(sock: socket.socket) -> Iterator[list[Any]]:
    """The messages that each read completes, until the other end is closed."""
    received = _Messages()
    while data := sock.recv(_READ):
        if messages := list(received.read(data)):
            yield messages


def _portable(error: BaseException) -> BaseException:
    """The error as it can be pickled, with its traceback as a note: that of the other process says nothing of here."""
    error.add_note("In the writer process:\n" + "".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    except Exception:  # noqa: BLE001 - such as an error that is made of several arguments
        told = RuntimeError(f"{type(error).__name__}: {error}")
        told.__notes__ = error.__notes__
        return told
    return error
