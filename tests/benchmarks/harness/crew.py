"""Worker processes that begin a task at the same instant and return its result."""

import contextlib
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any

_SPAWN = multiprocessing.get_context("spawn")  # a fork would inherit our connections to the database
_HEAD_START_S = 0.4  # time to open the database
_LIMIT_S = 300.0

Task = tuple[Callable[..., Any], tuple[Any, ...]]


class Crew:
    """Processes that stay from one task to the next."""

    def __init__(self, pipes: Sequence["Connection[Any, Any]"]) -> None:
        self._pipes = pipes

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        """One task for each process, called with the common start (``time.perf_counter``) and its arguments.

        Raises:
            RuntimeError: one of them failed; its traceback is in the message.
        """
        start = time.perf_counter() + _HEAD_START_S
        for pipe, (function, arguments) in zip(self._pipes, tasks, strict=True):
            pipe.send((function, (start, *arguments)))
        return [_received(pipe) for pipe in self._pipes]


def _received(pipe: "Connection[Any, Any]") -> Any:
    if not pipe.poll(_LIMIT_S):
        raise RuntimeError(f"a worker did not answer within {_LIMIT_S:.0f} s")
    is_good, found = pipe.recv()
    if not is_good:
        raise RuntimeError(found)
    return found


@contextlib.contextmanager
def crew(size: int) -> Iterator[Crew]:
    """A crew of *size* processes, which end with the block."""
    pairs = [_SPAWN.Pipe() for _ in range(size)]
    processes = [_SPAWN.Process(target=_work, args=(theirs,), daemon=True) for _, theirs in pairs]
    try:
        for process in processes:
            process.start()
        for _, theirs in pairs:
            theirs.close()
        yield Crew([ours for ours, _ in pairs])
    finally:
        for ours, _ in pairs:
            ours.close()
        for process in processes:
            process.join(10)
            process.kill()


def _work(pipe: "Connection[Any, Any]") -> None:
    import traceback

    with contextlib.suppress(EOFError, KeyboardInterrupt):
        while True:
            function, arguments = pipe.recv()
            try:
                pipe.send((True, function(*arguments)))
            except Exception:  # noqa: BLE001 - the boundary: the caller raises it
                pipe.send((False, traceback.format_exc()))


def wait_until(start: float) -> None:
    """Sleep until the common start."""
    time.sleep(max(0.0, start - time.perf_counter()))
