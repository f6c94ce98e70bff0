"""A copy of the past is only read: of what would change it, ``api`` takes replays and the agents that they need."""

import re
from collections.abc import Callable

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from shared.db.engine.past import Past

_READS = ("GET", "HEAD", "OPTIONS")
_MAY_CHANGE = re.compile(r"/api/past/.*|/api/agents/[^/]+(/pause|/resume)?")
_GIVES_AWAY = re.compile(r"/api/responses/pending/?")  # a client delivers what it fetches there


class OnlyReads:
    """The middleware that refuses each request to a copy of the past that would change or deliver something."""

    def __init__(self, app: ASGIApp, past: Callable[[], Past | None]) -> None:
        self._app = app
        self._past = past

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        past = self._past() if scope["type"] == "http" and is_held(scope["method"], scope["path"]) else None
        if past is None:
            await self._app(scope, receive, send)
            return
        sentence = f"{past.sentence}. Look at it, or replay a conversation with another agent (`emulator replay`)"
        await JSONResponse({"error": sentence}, 409)(scope, receive, send)


def is_held(method: str, path: str) -> bool:
    """Whether a copy of the past refuses this request."""
    if not path.startswith("/api/"):
        return False
    if method in _READS:
        return _GIVES_AWAY.fullmatch(path) is not None
    return _MAY_CHANGE.fullmatch(path) is None
