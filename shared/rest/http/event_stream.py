"""Server-sent events: an answer without an end."""

import asyncio
from collections.abc import AsyncGenerator

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from shared.runtime.app import wait_for_disconnect

_PATIENCE_S = 30.0  # with a client that reads nothing
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class EventStream(StreamingResponse):
    """Sends each piece within a time limit. A client that stops reading is disconnected, and may resume."""

    media_type = "text/event-stream"

    def __init__(self, pieces: AsyncGenerator[bytes, None], *, patience_s: float = _PATIENCE_S) -> None:
        super().__init__(pieces, headers=_HEADERS)
        self._pieces = pieces
        self._patience_s = patience_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(self._send(send))
        leaving = asyncio.create_task(wait_for_disconnect(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
        if not sending.cancelled() and (error := sending.exception()) and not isinstance(error, TimeoutError | OSError):
            raise error

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async for piece in self._pieces:
                async with asyncio.timeout(self._patience_s):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            await self._pieces.aclose()
