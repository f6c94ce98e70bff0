"""An HTTP client whose answers come from the test."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import httpx


class FakeClient:
    """A ``Client``: *platform* gets each request, and answers or raises ``RequestNotSent`` or ``NoAnswer``."""

    def __init__(self, platform: Callable[[httpx.Request], Any]) -> None:
        self._platform = platform

    async def request(self, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        made = self._platform(httpx.Request(method, url, content=body, headers=dict(headers)))
        answer = await made if inspect.isawaitable(made) else made
        return answer.status_code, answer.content

    async def close(self) -> None:
        pass
