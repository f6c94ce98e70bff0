"""The question whether what is committed is in the replica, asked once for all who wait at that moment.

One question is under way at a time. Who comes meanwhile shares the next one, and never the current one, which may have
begun before their commit. There is no timer: who is alone asks at once.

Under load the event loop is busy for milliseconds in each turn. So the connection stays open, and the next question is
sent while the answer to the last one is read, before its callers go on.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from shared.db.replica import control_socket
from shared.db.replica.control_socket import NO_ANSWER, Connection

Answer = asyncio.Future[str | None]
"""None: yes. Else why not."""

_STOPPING = "this function is stopping"


class SharedQuestion:
    """For one event loop.

    Args:
        request: from ``control_socket.sync_request``, with *wait*.
        limit_s: after this time a question is given up, with its connection.
        check: called after each yes of Litestream; what else is wrong, or None. Never raises.
    """

    def __init__(self, socket: Path, request: bytes, limit_s: float, check: Callable[[], str | None]) -> None:
        self._socket = socket
        self._request = request
        self._limit_s = limit_s
        self._check = check
        self._waiting: list[Answer] = []  # for the next question
        self._asked: list[Answer] = []  # for the question under way, or for one that is to be asked again
        self._is_under_way = False
        self._wanted: int | None = None  # the position that the replica had not reached at the first answer
        self._is_due = False  # a question follows at the end of this turn of the event loop
        self._is_closed = False
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def wait(self) -> Answer:
        """Has its result when the commits so far are in the replica, or when that can't be said."""
        loop = asyncio.get_running_loop()
        answer: Answer = loop.create_future()
        if self._is_closed:
            answer.set_result(_STOPPING)
            return answer
        self._waiting.append(answer)
        if not self._is_due:
            self._is_due = True
            loop.call_soon(self._ask)
        return answer

    async def close(self) -> None:
        """Ask no more; who still waits, or comes later, is told so."""
        self._is_closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            with suppress(asyncio.CancelledError):
                await self._connecting
        if self._connection is not None:
            self._connection.close()
        self._end_question()
        callers = [*self._asked, *self._waiting]
        self._connection, self._asked, self._waiting = None, [], []  # also for an _ask that is due
        _settle(callers, _STOPPING)

    def _ask(self) -> None:
        """Ask for all who wait, unless a question is under way."""
        self._is_due = False
        if self._is_under_way:
            return
        self._asked, self._waiting = _left(self._asked), _left(self._waiting)
        if self._connection is None:
            if (self._asked or self._waiting) and self._connecting is None:
                self._connecting = asyncio.get_running_loop().create_task(self._connect())
            return
        if not self._asked:
            self._asked, self._waiting, self._wanted = self._waiting, [], None
        if self._asked:
            self._send(self._connection)

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(self._limit_s):
                self._connection = await control_socket.connect(self._socket, self._on_answer, self._on_loss)
        except NO_ANSWER as error:
            callers = [*self._asked, *self._waiting]
            self._asked, self._waiting = [], []
            _settle(callers, control_socket.no_answer(self._socket, error))
        finally:
            self._connecting = None
        self._ask()

    def _send(self, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._limit_s, self._on_loss, connection, TimeoutError())
        self._is_under_way = True
        connection.send(self._request)

    def _on_answer(self, connection: Connection, status: int, body: bytes) -> None:
        """Litestream's monitor may take in newer commits meanwhile, so a replica that is behind is no "no" yet."""
        self._end_question()
        found, text = control_socket.read_positions(status, body)
        if self._wanted is None and found is not None and found.replicated_txid < found.txid:
            self._wanted = found.txid
            self._send(connection)
            return
        is_there = found is not None and found.replicated_txid >= (self._wanted or found.txid)
        problem = self._check() if is_there else text
        asked, self._asked = self._asked, []
        self._ask()
        _settle(asked, problem)

    def _on_loss(self, connection: Connection, error: Exception) -> None:
        """Litestream does not answer. Between two questions it may have been started again: that one is asked again."""
        if connection is not self._connection:
            return
        self._connection = None
        self._end_question()
        problem = None
        if isinstance(error, TimeoutError):
            connection.close()
            problem = control_socket.too_slow(self._limit_s)
        elif not connection.answers or self._wanted is not None:  # another Litestream may count from elsewhere
            problem = control_socket.no_answer(self._socket, error)
        if problem is not None:
            asked, self._asked = self._asked, []
            _settle(asked, problem)
        self._ask()

    def _end_question(self) -> None:
        self._is_under_way = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _left(answers: Iterable[Answer]) -> list[Answer]:
    """Those that somebody waits for; the others were cancelled."""
    return [each for each in answers if not each.done()]


def _settle(answers: Iterable[Answer], problem: str | None) -> None:
    for answer in answers:
        if not answer.done():
            answer.set_result(problem)
