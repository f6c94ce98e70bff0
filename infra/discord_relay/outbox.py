"""The frames on their way to ``ingest``: in order, each until it is stored, and never more than a bound.

While ``ingest`` is down the relay stops reading when the bound is reached; Discord repeats the rest at the resume.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import aiohttp

from shared.channels import standard_webhooks
from shared.core import logs
from shared.core.time import clock

MOST_WAITING = 1000

_ANSWER_LIMIT_S = 15.0  # ingest answers within 10
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0

log = logs.get()


@dataclass(frozen=True, slots=True)
class RelayedFrame:
    """A frame in the outbox. Without a *body* it only holds its place, so that ``seq`` never skips another one."""

    session_id: str
    seq: int
    webhook_id: str
    body: bytes | None


class Outbox:
    """Posts frames to *target*.

    Args:
        done: called with each frame that ``ingest`` has, in order.
    """

    def __init__(
        self,
        http: aiohttp.ClientSession,
        target: str,
        secret: str,
        *,
        done: Callable[[RelayedFrame], None],
        most: int = MOST_WAITING,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._http, self._target, self._secret = http, target, secret
        self._done, self._most, self._sleep = done, most, sleep
        self._waiting: deque[RelayedFrame] = deque()
        self._changed = asyncio.Condition()

    @property
    def has_room(self) -> bool:
        return len(self._waiting) < self._most

    async def put(self, frame: RelayedFrame) -> None:
        async with self._changed:
            self._waiting.append(frame)
            self._changed.notify_all()

    async def room(self) -> None:
        """Return as soon as half of the outbox is empty."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._waiting) <= self._most // 2)

    async def run(self) -> None:
        """Post until cancelled."""
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: bool(self._waiting))
                frame = self._waiting[0]
            if frame.body is not None:
                await self._post_until_stored(frame.webhook_id, frame.body)
            async with self._changed:
                self._waiting.popleft()
                self._done(frame)
                self._changed.notify_all()

    async def _post_until_stored(self, webhook_id: str, body: bytes) -> None:
        pause_s, told = _FIRST_PAUSE_S, ""
        while problem := await self._post(webhook_id, body):
            if problem != told:  # once for each reason
                log.warning("relay.not_stored", reason=problem, waiting=len(self._waiting))
                told = problem
            await self._sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
        if told:
            log.info("relay.stored_again", waiting=len(self._waiting))

    async def _post(self, webhook_id: str, body: bytes) -> str | None:
        """Why ``ingest`` does not have it; None: it has."""
        headers = standard_webhooks.sign(self._secret, webhook_id, body, now_ms=clock.now_ms())
        limit = aiohttp.ClientTimeout(total=_ANSWER_LIMIT_S)
        try:
            async with self._http.post(
                self._target, data=body, headers={"Content-Type": "application/json", **headers}, timeout=limit
            ) as answer:
                return None if answer.status < 300 else _problem(answer.status)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return f"ingest does not answer at {self._target} ({type(error).__name__}): does it run?"


def _problem(status: int) -> str:
    if status == 401:
        return "ingest refuses the signature: DISCORD_RELAY_SECRET must be the same there, and both clocks correct"
    if status == 404:
        return "ingest knows no such account: check DISCORD_RELAY_TARGET"
    return f"ingest answers {status}; its log says why"
