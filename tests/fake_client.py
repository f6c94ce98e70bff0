"""An HTTP client whose answers come from the test."""

import inspect
import json
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


class Answering:
    """A platform that gives the answers in turn, then repeats the last one.

    An answer is an error, a response, or what is the JSON of a 200.
    """

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, httpx.Response) else httpx.Response(200, json=answer)

    @property
    def urls(self) -> list[str]:
        return [str(request.url) for request in self.requests]

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(request.content or b"{}") for request in self.requests]
