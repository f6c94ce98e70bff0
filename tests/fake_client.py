"""An HTTP client whose answers come from the test."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import httpx

from shared.core.call_scopes import CallPacing
from shared.runtime.http_client import ANSWER_BYTES, AnswerTooLong, HttpAnswer, StreamedBody


class FakeClient:
    """A ``Client``: *platform* gets each request, and answers or raises ``RequestNotSent`` or ``NoAnswer``."""

    def __init__(self, platform: Callable[[httpx.Request], Any], pacing: CallPacing | None = None) -> None:
        self._platform = platform
        self.pacing = pacing

    async def request(
        self,
        method: str,
        url: str,
        body: bytes | StreamedBody,
        headers: Mapping[str, str],
        *,
        limit_bytes: int = ANSWER_BYTES,
    ) -> HttpAnswer:
        if not isinstance(body, bytes):
            headers = {"Content-Type": body.content_type, "Content-Length": str(body.size), **headers}
            body = b"".join([piece async for piece in body.pieces()])
        made = self._platform(httpx.Request(method, url, content=body, headers=dict(headers)))
        answer = await made if inspect.isawaitable(made) else made
        if len(answer.content) > limit_bytes:
            raise AnswerTooLong(f"the answer is longer than {limit_bytes} bytes")
        return HttpAnswer(answer.status_code, answer.content, dict(answer.headers))

    async def close(self) -> None:
        pass
