"""What a refused model request means for its turn.

The gateway knows why it refused. What the program says of it is a guess, in words that change with each version.
"""

from collections.abc import Mapping

from shared.core.failures import FailureCode
from shared.queue.turns import Failure
from shared.turns.gateway.tokens import Reason, Refusal

# Failures that a refusal does not explain: the program would have met them with whole answers too.
_OWN_WORDS: frozenset[FailureCode] = frozenset(
    {"tool_timeout", "output_limit", "memory_limit", "disk_limit", "not_started", "killed"}
)


_WORDS: Mapping[Reason, FailureCode] = {
    "budget": "budget",
    "unpriced": "bad_config",
    "quota": "quota",
    "rate_limited": "rate_limited",
    "login_refused": "auth",
    "model_not_found": "model_not_found",
    "overloaded": "overloaded",
    "unreachable": "network",
    "unwritten": "not_started",
    "cut": "network",
    "not_allowed": "bad_config",
}


def decide(failure: Failure, refusal: Refusal) -> Failure:
    """The failure of a turn whose latest model request was refused, and which the provider reports as *failure*."""
    if failure.code in _OWN_WORDS and not refusal.is_final:
        return failure
    return failure_of(refusal)


def failure_of(refusal: Refusal) -> Failure:
    """The failure of a turn that ends, or does not begin, because of *refusal*."""
    return Failure(refusal.sentence, code=_WORDS[refusal.reason], until_ms=refusal.until_ms)
