"""One call to a platform, and what its answer means. No address gets into an error: Telegram's hold the bot's token.

httpx is imported by the first call and not by the module: who only receives, as ingest does, never needs it.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from shared.errors import OutcomeUnknown, PermanentError, PostroomError, RateLimited, RetryableError

if TYPE_CHECKING:
    import httpx


@dataclass(frozen=True, slots=True)
class Answer:
    """Status and JSON object of an answer; *payload* is empty when the body is anything else."""

    status: int
    payload: dict[str, Any]


async def call(
    client: "httpx.AsyncClient", platform: str, method: str, url: str, body: dict[str, Any], headers: dict[str, str]
) -> Answer:
    """Send *body* as JSON.

    Raises:
        RetryableError: the request never left this machine.
        OutcomeUnknown: it left, and no whole answer came back.
    """
    import httpx

    never_left = (
        httpx.ConnectError,
        httpx.ConnectTimeout,
        httpx.PoolTimeout,
        httpx.ProxyError,
        httpx.UnsupportedProtocol,
        httpx.LocalProtocolError,
    )
    try:
        response = await client.request(method, url, json=body, headers=headers)
    except never_left as error:
        raise RetryableError(f"{platform} can't be reached ({type(error).__name__})") from None
    except httpx.HTTPError as error:
        raise OutcomeUnknown(f"{platform} did not answer ({type(error).__name__})") from None
    try:
        payload = msgspec.json.decode(response.content)
    except (ValueError, RecursionError):
        payload = None
    return Answer(response.status_code, payload if isinstance(payload, dict) else {})


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a platform's answer means for a send.

    Attributes:
        outcome: ``give_way`` asks to try once more without what *reason* names in *step*, a word of the channel's own.
        reason: fit for an operator's eyes.
        message_id: the platform's id of what was sent.
        retry_after_ms: the wait that was asked for, or None for the usual backoff.
        new_chat_id: where the conversation has moved to.
    """

    outcome: Literal["sent", "wait", "retry", "unknown", "permanent", "give_way"]
    reason: str = ""
    step: str = ""
    message_id: str | None = None
    retry_after_ms: int | None = None
    new_chat_id: int | None = None


def failure(verdict: Verdict) -> PostroomError:
    """The error that ``Channel.send`` promises for a verdict that is not ``sent``."""
    match verdict.outcome:
        case "wait":
            return RateLimited(verdict.reason, verdict.retry_after_ms)
        case "retry":
            return RetryableError(verdict.reason, verdict.retry_after_ms)
        case "unknown":
            return OutcomeUnknown(verdict.reason)
    return PermanentError(verdict.reason)
