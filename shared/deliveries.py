"""How a delivery fails: decided apart from done, and never by luck."""

import random
from dataclasses import dataclass
from functools import partial
from typing import Self

import apsw

from shared import backoff, series
from shared.db import chats, responses
from shared.db.responses import Response, Verdict
from shared.errors import OutcomeUnknown, RateLimited, RetryableError
from shared.settings import Settings

_SHORTEST_WAIT_MS = 1000  # also where the platform names no wait, or none to speak of
_LONGEST_WAIT_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class Policy:
    """How often, how long between, and what to do where nobody knows whether the person got it.

    Attributes:
        unknown_sends: ``resend`` (they may get it twice) or ``hold`` (they may not get it; the row is dead).
        jitter: in [0, 1), spreads the waits.
    """

    max_attempts: int
    base_ms: int
    cap_ms: int
    unknown_sends: str
    jitter: float

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """What the operator set, with fresh jitter."""
        return cls(
            max_attempts=settings.max_attempts,
            base_ms=settings.retry_base_ms,
            cap_ms=settings.retry_cap_ms,
            unknown_sends=settings.unknown_sends,
            jitter=random.random(),  # noqa: S311 - spreads waits, keeps no secret
        )


def judge(response: Response, error: Exception, policy: Policy, *, now_ms: int) -> Verdict:
    """Decide, without doing anything: tried again, and from when, or dead."""
    unknown = isinstance(error, OutcomeUnknown)
    decided = partial(Verdict, reason=str(error), outcome_unknown=unknown)
    if isinstance(error, RateLimited):
        wait_ms = min(max(error.retry_after_ms or 0, _SHORTEST_WAIT_MS), _LONGEST_WAIT_MS)
        return decided(dead=False, retry_count=response.retry_count, deliver_after=now_ms + wait_ms)
    attempts = response.retry_count + 1
    held = unknown and policy.unknown_sends == "hold"
    if held or not isinstance(error, RetryableError) or attempts >= policy.max_attempts:
        return decided(dead=True, retry_count=attempts, deliver_after=None)
    delay = error.retry_after_ms
    if delay is None:
        delay = backoff.delay_ms(attempts, base_ms=policy.base_ms, cap_ms=policy.cap_ms, jitter=policy.jitter)
    delay = min(delay, _LONGEST_WAIT_MS)
    return decided(dead=False, retry_count=attempts, deliver_after=now_ms + delay)


def acknowledge(conn: apsw.Connection, response: Response, parts: tuple[str | None, ...], *, now_ms: int) -> None:
    """All of it has reached the platform; a recurring one hands over to its next occurrence.

    Raises:
        ClaimLost: the lease went to somebody else; the caller's transaction must roll back.
    """
    responses.ack(conn, response, parts, now_ms=now_ms)
    series.advance_responses(conn, now_ms=now_ms)


def fail(conn: apsw.Connection, response: Response, error: Exception, policy: Policy, *, now_ms: int) -> Verdict:
    """Write the verdict on the row; a platform that asked for silence gets it in the whole chat.

    Raises:
        ClaimLost: the lease went to somebody else; the caller's transaction must roll back.
    """
    verdict = judge(response, error, policy, now_ms=now_ms)
    responses.fail(conn, response, verdict, now_ms=now_ms)
    if isinstance(error, RateLimited) and verdict.deliver_after is not None:
        chats.hold(conn, response.chat_id, until_ms=verdict.deliver_after)
    if verdict.dead:
        series.advance_responses(conn, now_ms=now_ms)
    return verdict


def rescue(conn: apsw.Connection, channel: str, policy: Policy, *, now_ms: int, everything: bool = False) -> int:
    """Give up the sends whose lease ran out: their process is gone, and what it was sending has an unknown outcome.

    *everything*: all sends of the channel, whoever held them. How many there were.
    """
    lost = [response for response, lease in responses.delivering(conn, channel) if everything or lease < now_ms]
    error = OutcomeUnknown("the process that was sending went away")
    for response in lost:
        fail(conn, response, error, policy, now_ms=now_ms)
    return len(lost)
