"""The errors of pydantic-ai in the words of a failed attempt."""

from pydantic_ai import exceptions as errors

from shared.agents.base import Failed
from shared.agents.programs.limits import Limits
from shared.core.failures import FailureCode

_LONGEST_REASON = 500

# The first class of which the error is one counts.
_CODES: tuple[tuple[type[Exception], FailureCode], ...] = (
    (errors.ModelAuthenticationError, "auth"),
    (errors.ModelNotFoundError, "model_not_found"),
    (errors.ModelQuotaExceededError, "quota"),
    (errors.ModelRateLimitError, "rate_limited"),
    (errors.ModelContextWindowExceededError, "context_too_long"),
    (errors.ModelOverloadedError, "overloaded"),
    (errors.ModelServerError, "overloaded"),
    (errors.ModelTimeoutError, "idle_timeout"),
    (errors.ModelConnectionError, "network"),
    (errors.UsageLimitExceeded, "runaway"),
    (errors.UnexpectedModelBehavior, "malformed"),
)
_TOO_LARGE = 413


def failed(error: Exception, limits: Limits) -> Failed:
    """The failure for an error of a model request; its text is for the operator alone."""
    code = next((code for kind, code in _CODES if isinstance(error, kind)), None)
    status = getattr(error, "status_code", None)
    if code is None:
        code = "context_too_long" if status == _TOO_LARGE else "error" if status is not None else "malformed"
    if code == "idle_timeout":
        what = f"the model's API sent nothing for {limits.idle_ms / 1000:g} s"
        return Failed(limits.ended(what, "idle_timeout_ms"), code=code)
    said = " ".join(str(error).split())[:_LONGEST_REASON]
    wait_s = getattr(error, "retry_after", None)
    return Failed(
        f"the model's API: {type(error).__name__}: {said}",
        retryable=not isinstance(error, errors.ModelRequestRejectedError | errors.ContentFilterError),
        wait_ms=max(0, int(wait_s * 1000)) if isinstance(wait_s, int | float) and code == "rate_limited" else None,
        code=code,
    )
