"""The work of a writer process, and the messages between it and its function."""

import contextlib
import gc
import os
import pickle
import signal
import socket
import traceback
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NoReturn, TypeVar

import apsw

from shared.core import logs
from shared.db.engine.jobs import GROUP_LIMIT, Committer, Job

T = TypeVar("T")

STOPS = (signal.SIGTERM, signal.SIGINT)

_HEAD = 4  # bytes before each message: its length
_READ = 1 << 18
_GARBAGE_OBJECTS = 10_000  # new objects between garbage collections, as in the functions

log = logs.get()


def call(work: Callable[..., T], arguments: tuple[Any, ...], conn: apsw.Connection) -> T:
    return work(conn, *arguments)


def framed(message: Any) -> bytes:
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return len(body).to_bytes(_HEAD) + body


class Messages:
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


def become(sock: socket.socket, on_start: Callable[[], None], mask: Iterable[int]) -> NoReturn:
    """In a process made for this: keep the outputs and *sock*, work until its other end is closed, and exit.

    Args:
        mask: the signals to block, once those that stop a function are ignored.
    """
    code = os.EX_SOFTWARE
    try:
        for number in STOPS:  # Ctrl-C and a stop of the whole service reach it too; the function decides
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
            sock.sendall(framed([]))  # ready
        asked = [arguments for message in messages for arguments in message]
        for start in range(0, len(asked), GROUP_LIMIT):
            group = [Job(partial(call, work, each)) for each in asked[start : start + GROUP_LIMIT]]
            committer.do(group)
            errors = {job.error for job in group if job.error is not None}  # one, where the commit failed
            portable = {error: _portable(error) for error in errors}
            sock.sendall(framed([(job.result, job.error and portable[job.error]) for job in group]))
    if committer is not None:
        committer.close()


def _reads(sock: socket.socket) -> Iterator[list[Any]]:
    """The messages that each read completes, until the other end is closed."""
    received = Messages()
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
