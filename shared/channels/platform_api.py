"""One call of a platform's API, and the meaning of its answer.

No URL appears in an error: a URL of the Telegram Bot API contains the bot's token. A platform may repeat the URL in its
answer, so what it says about a failure is redacted before anybody reads it.

Every call names its scopes. A client with pacing holds a call whose scope has to wait, and records what answers say
about limits: an adapter does neither.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from shared.channels.multipart import Form
from shared.core.call_scopes import CallScopes
from shared.core.errors import (
    ChatGone,
    ChatMoved,
    FilesRefused,
    FileTooLarge,
    NotSent,
    OutcomeUnknown,
    PartTooLong,
    PermanentError,
    PlaceGone,
    PlatformDown,
    PostroomError,
    RateLimited,
    RetryableError,
    TokenRefused,
)
from shared.core.text import half_characters, redaction
from shared.runtime.http_client import AnswerTooLong, Client, NoAnswer, RequestNotSent


class ApiAnswer(msgspec.Struct, frozen=True):
    """Status and JSON object of an answer; *payload* is empty when the body is not a JSON object.

    Attributes:
        items: the body where it is a JSON list; else empty.
    """

    status: int
    payload: dict[str, Any]
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    items: list[Any] = msgspec.field(default_factory=list)


async def call(
    client: Client,
    platform: str,
    method: str,
    url: str,
    body: dict[str, Any] | list[Any] | Form | None,
    headers: dict[str, str],
    *,
    scopes: CallScopes | None = None,
) -> ApiAnswer:
    """Send *body*: a dict or list as JSON, a form with its files; None sends none.

    Args:
        scopes: what the call counts against, by the adapter's ``limits`` module; None: nothing is known of limits.

    Raises:
        RateLimited: the platform asked for a wait that is not over; nothing was sent.
        NotSent: the request never left this machine.
        OutcomeUnknown: the request left, and no complete answer came back.
        FilesRefused: a file of the form is gone or has changed; nothing was sent.
    """
    if isinstance(body, Form):
        await body.check()
    if client.pacing is not None and scopes is not None:
        await client.pacing.admit(scopes)
    content = body if isinstance(body, Form) else b"" if body is None else msgspec.json.encode(body)
    lines = headers if isinstance(body, Form) else {"Content-Type": "application/json", **headers}
    try:
        status, found, said = await client.request(method, url, content, lines)
    except RequestNotSent as error:
        raise NotSent(f"{platform} can't be reached ({error}); nothing was sent") from None
    except NoAnswer as error:
        raise OutcomeUnknown(f"{platform} did not answer ({error}); the message may have arrived") from None
    finally:
        if client.pacing is not None and scopes is not None:
            client.pacing.leave(scopes)
    decoded = _decoded(found)
    payload = decoded if isinstance(decoded, dict) else {}
    items = decoded if isinstance(decoded, list) else []
    if client.pacing is not None and scopes is not None:
        await client.pacing.record(scopes, scopes.read(scopes, status, said, payload))
    return ApiAnswer(status, payload if 200 <= status < 300 else redaction.redact_all(payload), said, items)


def _decoded(body: bytes) -> Any:
    """The JSON in *body*; None where it holds none."""
    try:
        return msgspec.json.decode(half_characters.mend_json(body))
    except (ValueError, RecursionError):
        return None


async def download(client: Client, platform: str, url: str, headers: dict[str, str], *, limit_bytes: int) -> bytes:
    """The bytes at *url*, whose host the caller has checked. No redirect is followed, and no more than the limit read.

    Raises:
        NotSent: the platform can't be reached.
        RetryableError: another attempt may succeed.
        FileTooLarge: there are more than *limit_bytes*.
        PermanentError: the platform does not have the file.
    """
    try:
        status, found, _ = await client.request("GET", url, b"", headers, limit_bytes=limit_bytes)
    except RequestNotSent as error:
        raise NotSent(f"{platform} can't be reached ({error})") from None
    except AnswerTooLong:
        raise FileTooLarge(limit_bytes) from None
    except NoAnswer as error:
        raise RetryableError(f"{platform} did not send the whole file ({error})") from None
    if status == 200:
        return found
    if status in (408, 429) or status >= 500:
        raise RetryableError(f"{platform} answered {status} instead of the file")
    raise PermanentError(f"{platform} answered {status} instead of the file: it is no longer there")


Outcome = Literal[
    "sent", "wait", "retry", "unknown", "down", "refused", "too_long", "files_refused", "place_gone", "chat_gone",
    "moved", "permanent", "give_way",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class CallResult:
    """The meaning of a platform's answer to a send.

    Attributes:
        outcome: ``give_way`` asks for another call, changed as *step* says; ``refused``: the platform refuses our
            token; ``too_long``: it finds this part too long; ``files_refused``: it refuses the files of this part;
            ``place_gone``: the topic, thread or channel is closed or gone; ``chat_gone``: our bot can't write to the
            chat any more; ``moved``: the chat has the id *new_chat_id* now;
            ``unknown``: no answer came; ``down``: the platform answers that it can't work.
        reason: for the operator: no secrets, no person's text.
        step: one of the channel's own words for a change of the call; empty where there is none.
        message_id: the platform's id of the sent message.
        also: the ids of the further messages of an album, in order.
        retry_after_ms: the pause that the platform asks for, or None for the usual backoff.
        new_chat_id: the new id of a chat that has moved.
        is_repeatable: the same call again has no second effect; of ``unknown`` and ``down``.
    """

    outcome: Outcome
    reason: str = ""
    step: str = ""
    message_id: str | None = None
    also: tuple[str, ...] = ()
    retry_after_ms: int | None = None
    new_chat_id: str = ""
    is_repeatable: bool = False


_PLAIN_ERRORS: dict[Outcome, type[PostroomError]] = {
    "refused": TokenRefused,
    "too_long": PartTooLong,
    "files_refused": FilesRefused,
    "place_gone": PlaceGone,
    "chat_gone": ChatGone,
}


def error_of(result: CallResult) -> PostroomError:
    """The error that ``Channel.send`` raises for a result other than ``sent``."""
    match result.outcome:
        case "wait":
            return RateLimited(result.reason, result.retry_after_ms)
        case "retry":
            return RetryableError(result.reason, result.retry_after_ms)
        case "moved":
            return ChatMoved(result.reason, result.new_chat_id)
        case "unknown":
            return OutcomeUnknown(result.reason, is_repeatable=result.is_repeatable)
        case "down":
            return PlatformDown(result.reason, may_have_arrived=not result.is_repeatable)
    return _PLAIN_ERRORS.get(result.outcome, PermanentError)(result.reason)


def expect_success(result: CallResult) -> None:
    """Raise the error of a result other than ``sent``."""
    if result.outcome != "sent":
        raise error_of(result)
