"""One call to a platform, its failures told apart by whether it can have happened. No address gets into an error."""

from dataclasses import dataclass
from typing import Any

import httpx
import msgspec

from shared.errors import OutcomeUnknown, RetryableError

_NEVER_LEFT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
    httpx.LocalProtocolError,
)


@dataclass(frozen=True, slots=True)
class Answer:
    """Status and JSON object of an answer; *payload* is empty when the body is anything else."""

    status: int
    payload: dict[str, Any]


async def call(
    client: httpx.AsyncClient, platform: str, method: str, url: str, body: dict[str, Any], headers: dict[str, str]
) -> Answer:
    """Send *body* as JSON.

    Raises:
        RetryableError: the request never left this machine.
        OutcomeUnknown: it left, and no whole answer came back.
    """
    try:
        response = await client.request(method, url, json=body, headers=headers)
    except _NEVER_LEFT as error:
        raise RetryableError(f"{platform} can't be reached ({type(error).__name__})") from None
    except httpx.HTTPError as error:
        raise OutcomeUnknown(f"{platform} did not answer ({type(error).__name__})") from None
    try:
        payload = msgspec.json.decode(response.content)
    except (ValueError, RecursionError):
        payload = None
    return Answer(response.status_code, payload if isinstance(payload, dict) else {})
