"""What an HTTP client does for its callers: the protocol, its answers and its failures.

Bodies may be streamed; answers are kept whole, up to a limit. After a failure, the caller must know whether anything of
the request left this machine. The client itself is in ``shared/runtime/http1_client.py``.
"""

from collections.abc import AsyncGenerator, Mapping
from typing import NamedTuple, Protocol

from shared.core.call_scopes import CallPacing

ANSWER_BYTES = 1 << 20


class RequestNotSent(Exception):
    """Nothing of the request left this machine; the message says why, without the address."""


class NoAnswer(Exception):
    """At least a part of the request left, and no whole answer came; the message says why, without the address."""


class AnswerTooLong(NoAnswer):
    """The answer holds more bytes than the caller wants."""


class StreamedBody(Protocol):
    """A body that is read while it is sent. Each call of ``pieces`` begins anew."""

    @property
    def size(self) -> int:
        """The number of bytes that the pieces have together."""

    @property
    def content_type(self) -> str:
        """The value of the header ``Content-Type``."""

    def pieces(self) -> AsyncGenerator[bytes]:
        """The bytes, in order. An error that it raises aborts the request, and reaches the caller of ``request``."""


class HttpAnswer(NamedTuple):
    """The answer to a request. Header names are lower-case; of a header that comes twice, the last."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class Client(Protocol):
    """Sends requests: ``HttpClient``, or the platform of a test."""

    @property
    def pacing(self) -> CallPacing | None:
        """The limits that ``platform_api`` obeys and records for each call; None: it knows none."""

    async def request(
        self,
        method: str,
        url: str,
        body: bytes | StreamedBody,
        headers: Mapping[str, str],
        *,
        limit_bytes: int = ANSWER_BYTES,
    ) -> HttpAnswer:
        """Send the request once. No redirect is followed.

        Raises:
            RequestNotSent: there was no connection to send it over.
            NoAnswer: the request may have been carried out.
            AnswerTooLong: the answer has more than *limit_bytes*; the rest of it was not read.
        """

    async def close(self) -> None:
        """Abort the running requests."""
