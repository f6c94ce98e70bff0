"""What a failed turn does to each of its messages. Pure."""

from dataclasses import dataclass
from functools import partial
from typing import Self

import msgspec

from shared.core import chance, failures
from shared.core.failures import FailureCode
from shared.core.settings import Settings
from shared.core.text import redaction
from shared.core.time import backoff
from shared.db.queue.claims import MessageVerdict
from shared.db.queue.message_row import SUSPECT_FROM, Message

NO_REASON = "the agent failed and gave no reason"

SHORTEST_WAIT_MS = 1000  # a wait costs no attempt: a shorter one would repeat the turn for ever, at full speed
LONGEST_WAITS_MS = 24 * 60 * 60 * 1000  # of one wait, and of all waits in a row

LOST_DISPATCH, LOST_HOST = 10, 1  # of suspicion; twice may be chance, twenty times a host that gives out
_CERTAIN = 20 * LOST_DISPATCH  # all but the first two with a wait before, in which dispatch lived


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a turn failed.

    Attributes:
        wait_ms: the wait that the provider asked for; it costs no attempt. One below ``SHORTEST_WAIT_MS`` is ignored.
        until_ms: the same as an instant, in ms UTC.
        suspicion: what ``process_gone`` adds to the suspicion of the turn's messages.
    """

    reason: str
    retryable: bool = True
    wait_ms: int | None = None
    code: FailureCode = "error"
    until_ms: int | None = None
    suspicion: int = 0

    def wait_from(self, now_ms: int) -> int | None:
        """The wait from this instant on; None: none was asked for."""
        return self.wait_ms if self.until_ms is None else max(0, self.until_ms - now_ms)

    @property
    def shown_reason(self) -> str:
        """The reason for people, without secrets."""
        return redaction.redact(self.reason.strip()) or NO_REASON


class Said(msgspec.Struct, frozen=True):
    """Whether the turn that ended had spoken, and whether its agent's row allows one continuation."""

    has_spoken: bool = False
    may_go_on: bool = False


NOTHING = Said()


class RetryPolicy(msgspec.Struct, frozen=True):
    """How many attempts, and the waits between them; *jitter* in [0, 1) spreads the waits."""

    max_attempts: int
    base_ms: int
    cap_ms: int
    jitter: float

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The operator's settings, with fresh jitter."""
        return cls(settings.max_attempts, settings.retry_base_ms, settings.retry_cap_ms, chance.fraction())


def judge(
    message: Message,
    failure: Failure,
    policy: RetryPolicy,
    said: Said = NOTHING,
    *,
    is_alone: bool = True,
    now_ms: int,
) -> MessageVerdict:
    """Decide, without a side effect: a retry, and from when, or the end.

    Args:
        is_alone: no other message asked for the turn. Else its end for good proves nothing about this one.
    """
    reason = failure.shown_reason
    wait_ms = failure.wait_from(now_ms)
    if failure.until_ms is None and wait_ms is not None and wait_ms < SHORTEST_WAIT_MS:
        wait_ms = None
    attempts = message.retry_count + 1
    match failures.follows(
        failure.code,
        retryable=failure.retryable,
        has_wait=wait_ms is not None,
        has_spoken=said.has_spoken,
        may_go_on=said.may_go_on,
    ):
        case "keep":
            return MessageVerdict(
                False, message.retry_count, None, reason, failure.code, suspicion=message.suspicion or 0
            )
        case "wait":
            return _wait(message, wait_ms or 0, reason, failure.code, now_ms=now_ms)
        case "go_on":
            delay = 0 if failure.code == "interrupted" else max(wait_ms or 0, _delay(attempts, policy))
            return MessageVerdict(False, attempts, now_ms + delay, reason, failure.code)
        case "retry" if failure.code == "process_gone":
            return _lost(message, failure, policy, is_alone=is_alone, now_ms=now_ms)
        case "retry" if attempts < policy.max_attempts:
            return MessageVerdict(False, attempts, now_ms + _delay(attempts, policy), reason, failure.code)
        case _ if not (is_alone or said.has_spoken or message.spoken):
            return MessageVerdict(False, message.retry_count, None, reason, failure.code, runs_alone=True)
        case _:
            return MessageVerdict(True, attempts, None, reason, failure.code)


def _lost(message: Message, failure: Failure, policy: RetryPolicy, *, is_alone: bool, now_ms: int) -> MessageVerdict:
    """The loss of dispatch is no attempt: an operator's SIGKILL looks like that of a program that takes dispatch down.

    What tells them apart is what happens without the message. So a suspect that ran alone waits, longer each time. If
    dispatch goes away in such a wait, the message is acquitted (``claims.acquit``). If it never does, and goes away
    whenever the message runs, the message ends at last.
    """
    suspicion = (message.suspicion or 0) + failure.suspicion
    left = partial(MessageVerdict, False, message.retry_count, failure=failure.code, suspicion=suspicion)
    if not (message.is_suspect and (is_alone or message.spoken)):  # what was said was about all of the batch
        return left(process_after=None, reason=failure.shown_reason, runs_alone=message.is_suspect)
    losses = suspicion // LOST_DISPATCH
    reason = f"{failure.shown_reason}, {losses} times in a row while this message ran"
    if suspicion >= _CERTAIN:
        return MessageVerdict(True, message.retry_count + 1, None, reason, failure.code)
    return left(process_after=now_ms + _delay(losses - SUSPECT_FROM // LOST_DISPATCH, policy), reason=reason)


def _delay(attempts: int, policy: RetryPolicy) -> int:
    return backoff.delay_ms(attempts, base_ms=policy.base_ms, cap_ms=policy.cap_ms, jitter=policy.jitter)


def _wait(message: Message, wait_ms: int, reason: str, code: FailureCode, *, now_ms: int) -> MessageVerdict:
    """A wait costs no attempt. So that it is never for ever, all waits in a row end after a day."""
    since = min(now_ms if message.waits_since is None else message.waits_since, now_ms)
    left_ms = since + LONGEST_WAITS_MS - now_ms
    failure: FailureCode = "rate_limited" if code == "error" else code
    decided = partial(MessageVerdict, retry_count=message.retry_count, failure=failure, waits_since=since)
    if left_ms <= 0:
        given_up = f"{reason}; given up after {LONGEST_WAITS_MS // 3_600_000} hours of waits that the agent asked for"
        return decided(dead=True, process_after=None, reason=given_up)
    due = now_ms + min(max(wait_ms, SHORTEST_WAIT_MS), left_ms)
    return decided(dead=False, process_after=due, reason=reason)
