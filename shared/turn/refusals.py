"""What a refused model request means for its turn.

The gateway knows why it refused. What the program says of it is a guess, in words that change with each version.
"""

from shared.core.failures import FailureCode
from shared.gateway.tokens import Refusal
from shared.queue.turns import Failure

# Failures that a refusal does not explain: the program would have met them with whole answers too.
_OWN_WORDS: frozenset[FailureCode] = frozenset(
    {"tool_timeout", "output_limit", "memory_limit", "not_started", "killed"}
)


def decide(failure: Failure, refusal: Refusal, *, now_ms: int) -> Failure:
    """The failure of a turn whose latest model request was refused, and which the provider reports as *failure*."""
    if failure.code in _OWN_WORDS and not refusal.is_final:
        return failure
    wait_ms = None if refusal.until_ms is None else max(0, refusal.until_ms - now_ms)
    match refusal.reason:
        case "budget" | "quota" | "rate_limited":
            return Failure(refusal.sentence, wait_ms=wait_ms, code="rate_limited")
        case "unpriced" | "login_refused" | "model_not_found":
            return Failure(refusal.sentence, retryable=False)
        case "overloaded" | "unreachable" | "cut":
            return Failure(refusal.sentence, wait_ms=wait_ms)
