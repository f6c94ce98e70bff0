"""What a failure of a send leads to: a retry, and from when, or the end. Decides, and writes nothing."""

from dataclasses import dataclass
from functools import partial
from typing import Self

from shared.channels import registry
from shared.core import chance
from shared.core.errors import OutcomeUnknown, PlatformDown, RateLimited, RetryableError
from shared.core.settings import Settings
from shared.core.text import redaction
from shared.core.time import backoff
from shared.db.queue.responses import FailureCode, Response, ResponseVerdict
from shared.queue.platforms import outages

_UNNAMED_WAIT_MS = 1000  # where the platform asks for a wait and names none
_HOUR_MS = 60 * 60 * 1000
_LONGEST_WAIT_MS = 24 * 60 * 60 * 1000
_GROWTH = 4  # of the waits between attempts: with the default settings five attempts span 2 to 7 minutes
_LONGEST_REPEAT_WAIT_MS = 120_000  # a platform recognises a repetition only for some minutes: Discord by its nonce
_MOST_UNANSWERED = 2  # sends of a part without an answer, where nobody but the person can see what arrived
_LOOK_FIRST = "see in the chat whether it arrived, then retry or delete the response"


@dataclass(frozen=True, slots=True)
class DeliveryPolicy:
    """How often a send is tried, with which waits, and what happens after an unknown outcome.

    Attributes:
        unknown_sends: ``resend`` (the person may get it twice) or ``hold`` (perhaps not at all; the row is dead).
        outage_limit_ms: how long a response waits for its platform, with no attempt counted, before it is dead.
        jitter: in [0, 1), spreads the waits.
    """

    max_attempts: int
    base_ms: int
    cap_ms: int
    unknown_sends: str
    jitter: float
    outage_limit_ms: int = 24 * _HOUR_MS

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The operator's settings, with fresh jitter."""
        return cls(
            max_attempts=settings.max_attempts,
            base_ms=settings.retry_base_ms,
            cap_ms=settings.retry_cap_ms,
            unknown_sends=settings.unknown_sends,
            jitter=chance.fraction(),
            outage_limit_ms=int(settings.outage_limit_hours * _HOUR_MS),
        )


def judge(
    response: Response, error: Exception, policy: DeliveryPolicy, *, now_ms: int, unanswered: int = 0
) -> ResponseVerdict:
    """Decide, without a side effect: a retry, and from when, or the end.

    Args:
        unanswered: how often this part was sent without an answer, this time too.
    """
    reason = redaction.redact(str(error))
    held = _may_have_arrived(error) and not can_be_found(response, error)
    if held and unanswered >= _MOST_UNANSWERED:
        reason = f"{reason}; it was sent {unanswered} times without an answer: {_LOOK_FIRST}"
    else:
        held = held and policy.unknown_sends == "hold"
    decided = partial(ResponseVerdict, reason=reason, failure=_code(error))
    if isinstance(error, RateLimited):
        return _limited(response, error.retry_after_ms or 0, reason, policy, now_ms=now_ms)
    if isinstance(error, PlatformDown) and not held:
        return _down(response, error, reason, policy, now_ms=now_ms)
    attempts = response.retry_count + 1
    if held or not isinstance(error, RetryableError) or attempts >= policy.max_attempts:
        return decided(dead=True, retry_count=attempts, deliver_after=None)
    delay = error.retry_after_ms
    if delay is None:
        longest_ms = policy.cap_ms if _may_have_arrived(error) else min(policy.cap_ms, _LONGEST_REPEAT_WAIT_MS)
        delay = backoff.delay_ms(
            attempts, base_ms=policy.base_ms, cap_ms=longest_ms, jitter=policy.jitter, growth=_GROWTH
        )
    delay = min(delay, _LONGEST_WAIT_MS)
    return decided(dead=False, retry_count=attempts, deliver_after=now_ms + delay)


def _may_have_arrived(error: Exception) -> bool:
    """Whether the platform may have carried out the send, and another one could be a second message."""
    if isinstance(error, PlatformDown):
        return error.may_have_arrived
    return isinstance(error, OutcomeUnknown) and not error.is_repeatable


def counts_as_unknown(response: Response, error: Exception) -> bool:
    """Whether the send may have arrived, and the row says so. A 5xx counts where the platform shows what arrived."""
    if isinstance(error, PlatformDown) and error.code == "server_error":
        return error.may_have_arrived and can_be_found(response, error)
    was_asked = isinstance(error, OutcomeUnknown) and error.no_evidence
    return _may_have_arrived(error) and not was_asked


def can_be_found(response: Response, error: Exception) -> bool:
    """Whether the platform is asked for evidence before this part is sent again."""
    was_asked = isinstance(error, OutcomeUnknown) and error.no_evidence
    return registry.traits(response.channel).finds_sent and not was_asked


def _limited(response: Response, asked_ms: int, reason: str, policy: DeliveryPolicy, *, now_ms: int) -> ResponseVerdict:
    """The platform asked for a wait: with no attempt counted, within the limit for all waits in a row."""
    since = _begin_of_outage(response, now_ms=now_ms)
    left_ms = since + policy.outage_limit_ms - now_ms
    decided = partial(ResponseVerdict, retry_count=response.retry_count, failure="rate_limited", unsent_since=since)
    if left_ms <= 0:
        given_up = f"{reason}; given up after {limit_in_words(policy)} of waits that the platform asked for"
        return decided(dead=True, deliver_after=None, reason=given_up)
    due = now_ms + min(asked_ms or _UNNAMED_WAIT_MS, left_ms)
    return decided(dead=False, deliver_after=due, reason=reason)


def _down(
    response: Response, error: PlatformDown, reason: str, policy: DeliveryPolicy, *, now_ms: int
) -> ResponseVerdict:
    """The platform can't work: wait for it, with no attempt counted, within the limit."""
    since = _begin_of_outage(response, now_ms=now_ms)
    elapsed_ms = now_ms - since
    decided = partial(ResponseVerdict, retry_count=response.retry_count, failure=_code(error), unsent_since=since)
    if elapsed_ms >= policy.outage_limit_ms:
        return decided(dead=True, deliver_after=None, reason=f"{reason}; given up after {limit_in_words(policy)}")
    due = outages.next_probe_ms(elapsed_ms, base_ms=policy.base_ms, jitter=policy.jitter) + now_ms
    return decided(dead=False, deliver_after=due, reason=reason)


def limit_in_words(policy: DeliveryPolicy) -> str:
    return f"{policy.outage_limit_ms / _HOUR_MS:g} hours"


def _begin_of_outage(response: Response, *, now_ms: int) -> int:
    """The first of the failures in a row that cost no attempt.

    Nothing was tried while the machine slept or the channel was paused, so the row begins anew after that.
    """
    since = response.unsent_since
    slept = backoff.has_slept(response.deliver_after, now_ms=now_ms)
    return now_ms if since is None or since > now_ms or slept else since


def _code(error: Exception) -> FailureCode:
    if isinstance(error, RateLimited):
        return "rate_limited"
    return "outcome_unknown" if _may_have_arrived(error) else "error"
