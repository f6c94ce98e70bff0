"""Asks people on behalf of the program of one turn, and lets its time stand still while they decide.

::

    ask ──> a standing permission covers it ──> yes
         └> a card ──> wait ──> yes, taken in the transaction that finds the turn still holding its messages
                        ├─────> no, or nobody in time
                        └─────> the turn ends first: the card says so, and nothing was done

A dispatch that is killed takes nothing; its prompts end when its turns are rescued, and a new run asks anew.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import apsw

from shared.agents.access import PermissionAnswer, PermissionAsked
from shared.conversation.access import permission_requests
from shared.core import logs
from shared.core.errors import OF_ONE_ROW, PostroomError
from shared.core.text import redaction
from shared.core.time import clock
from shared.db.access import approvals, permissions
from shared.db.access.approvals import Approval
from shared.db.queue import claims, events
from shared.db.queue.claims import Claim
from shared.runtime.service import RowAccess

log = logs.get()

_LOOKS_EVERY_S = 2.0  # beside the kicks, which may be lost
_OVER = PermissionAnswer(False, "The turn has ended, so nothing is allowed: end your work.")
_UNREADABLE = PermissionAnswer(False, "No card can show what you asked for, so nobody was asked. Go on without it.")
_DATABASE = PermissionAnswer(False, "The database could not be used, so nobody was asked. Go on without it.")


class TurnPermissions:
    """Implements ``Permissions`` for the turn of *claim*.

    Args:
        wait_ms: how long a question waits for an approver.
        now_ms: the clock.
    """

    def __init__(
        self, service: RowAccess, claim: Claim, *, wait_ms: int, now_ms: Callable[[], int] = clock.now_ms
    ) -> None:
        self._service = service
        self._claim = claim
        self._wait_ms = wait_ms
        self._now_ms = now_ms
        self._changed = asyncio.Event()
        self._waiting = 0
        self._limit: asyncio.Timeout | None = None
        self._left_s = 0.0
        self._leaving: set[asyncio.Task[None]] = set()

    def stands_still(self, limit: asyncio.Timeout) -> None:
        """Let the limit of the whole turn stand still while a question waits."""
        self._limit = limit

    def look(self) -> None:
        """Something may have been decided."""
        self._changed.set()

    async def ask(self, asked: PermissionAsked) -> PermissionAnswer:
        """See ``Permissions``."""
        try:
            begun = await self._service.writer.run(partial(self._begin, asked=asked))
            if isinstance(begun, PermissionAnswer):
                return begun
            log.info("permission.asked", turn=self._claim.token, approval=begun.approval_id)
            self._service.kick("deliver", "api")
            return await self._answer_of(begun)
        except PostroomError as error:
            return PermissionAnswer(False, redaction.redact(f"It was not allowed: {error}."))
        except apsw.Error:
            log.exception("permission.not_asked", turn=self._claim.token)
            return _DATABASE
        except OF_ONE_ROW:  # the program would wait for an answer until its limits end it
            log.exception("permission.not_asked", turn=self._claim.token)
            return _UNREADABLE

    def close(self) -> "asyncio.Future[Any]":
        """End the turn's open questions: their cards say that it is over. Done at once where there are none."""
        return asyncio.gather(*self._leaving, return_exceptions=True)

    def _begin(self, conn: apsw.Connection, asked: PermissionAsked) -> Approval | PermissionAnswer:
        """In one transaction: what answers it at once, or the approval to wait for."""
        claim, now_ms = self._claim, self._now_ms()
        if not claims.is_held(conn, claim):
            return _OVER
        if asked.covers is not None:
            used = permissions.use(
                conn,
                agent=claim.agent,
                chat_id=claim.asked[0].chat_id,
                tool=asked.tool,
                arguments=asked.covers,
                now_ms=now_ms,
            )
            if used is not None:
                about = claim.asked[0].message_id
                events.append(
                    conn,
                    "permission_used",
                    now_ms=now_ms,
                    message_id=about,
                    agent=claim.agent,
                    session_id=claim.session_id,
                    data={"permission": used},
                )
                return PermissionAnswer(True)
        return permission_requests.ask(conn, claim, asked, expires_at=now_ms + self._wait_ms, now_ms=now_ms)

    async def _answer_of(self, asked: Approval) -> PermissionAnswer:
        try:
            with self._standing_still():
                while True:
                    self._changed.clear()
                    if self._is_settled(asked):
                        found = await self._service.writer.run(partial(self._settle, asked=asked))
                        if found is not None:
                            self._service.kick("deliver", "api")
                            return found
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(self._wait_s(asked)):
                            await self._changed.wait()
        except asyncio.CancelledError:
            leaving = asyncio.create_task(self._leave(asked))
            self._leaving.add(leaving)
            raise

    def _wait_s(self, asked: Approval) -> float:
        return min(_LOOKS_EVERY_S, max(0.001, (asked.expires_at - self._now_ms()) / 1000))

    def _is_settled(self, asked: Approval) -> bool:
        known = approvals.get(self._service.reader, asked.approval_id)
        return known is None or known.status != "pending" or known.expires_at <= self._now_ms()

    def _settle(self, conn: apsw.Connection, asked: Approval) -> PermissionAnswer | None:
        """The answer, in the transaction that uses a yes up; None: it is pending still."""
        if not claims.is_held(conn, self._claim):
            return _OVER
        found = permission_requests.settled(conn, asked.approval_id, now_ms=self._now_ms())
        if found is None:
            return None
        match found.status:
            case "approved":
                return PermissionAnswer(True)
            case "refused":
                return PermissionAnswer(False, "An approver refused it. Go on without it, and in no other way.")
        return PermissionAnswer(
            False, f"Nobody allowed it within {self._wait_ms // 1000} s. Go on without it, and say that it is not done."
        )

    async def _leave(self, asked: Approval) -> None:
        """End a question whose answer nobody waits for. If it can't be written now, ``sweep`` writes it."""
        over = permission_requests.OVER
        try:
            await self._service.writer.run(
                lambda conn: permission_requests.end(conn, asked.approval_id, over, now_ms=self._now_ms())
            )
            self._service.kick("deliver", "api")
        except apsw.Error:
            log.exception("permission.not_withdrawn", turn=self._claim.token, approval=asked.approval_id)

    @contextlib.contextmanager
    def _standing_still(self) -> Iterator[None]:
        """Stop the clock of the turn's limit while a person is asked."""
        loop, limit = asyncio.get_running_loop(), self._limit
        when = limit.when() if limit is not None else None
        if limit is not None and when is not None and not self._waiting:
            self._left_s = when - loop.time()
            limit.reschedule(None)
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
            # A limit that was set meanwhile ends the turn at once: it stays.
            if limit is not None and not self._waiting and limit.when() is None and not limit.expired():
                limit.reschedule(loop.time() + self._left_s)
