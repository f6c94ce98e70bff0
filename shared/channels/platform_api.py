"""One call to a platform, and what its answer means. No address gets into an error: Telegram's hold the bot's token."""

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from shared.core.errors import OutcomeUnknown, PermanentError, PostroomError, RateLimited, RetryableError
from shared.runtime.http_client import Client, NeverLeft, NoAnswer


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """Status and JSON object of an answer; *payload* is empty when the body is anything else."""

    status: int
    payload: dict[str, Any]


async def call(
    client: Client, platform: str, method: str, url: str, body: dict[str, Any], headers: dict[str, str]
) -> ApiAnswer:
    """Send *body* as JSON.

    Raises:
        RetryableError: the request never left this machine.
        OutcomeUnknown: it left, and no whole answer came back.
    """
    content = msgspec.json.encode(body)
    try:
        status, found = await client.request(method, url, content, {"Content-Type": "application/json", **headers})
    except NeverLeft as error:
        raise RetryableError(f"{platform} can't be reached ({error})") from None
    except NoAnswer as error:
        raise OutcomeUnknown(f"{platform} did not answer ({error})") from None
    try:
        payload = msgspec.json.decode(found)
    except (ValueError, RecursionError):
        payload = None
    return ApiAnswer(status, payload if isinstance(payload, dict) else {})


@dataclass(frozen=True, slots=True)
class CallResult:
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


def error_of(result: CallResult) -> PostroomError:
    """The error that ``Channel.send`` promises for a verdict that is not ``sent``."""
    match result.outcome:
        case "wait":
            return RateLimited(result.reason, result.retry_after_ms)
        case "retry":
            return RetryableError(result.reason, result.retry_after_ms)
        case "unknown":
            return OutcomeUnknown(result.reason)
    return PermanentError(result.reason)
