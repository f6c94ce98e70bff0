"""What a function does on a copy of the past (``shared/db/engine/past.py``): it says so, and sends nothing."""

from starlette.responses import JSONResponse, Response

from shared.core.call_scopes import CallPacing
from shared.db.engine.past import Past
from shared.runtime.http_client import ANSWER_BYTES, HttpAnswer, RequestNotSent


class NoClient:
    """A ``Client`` that sends nothing, whatever the settings and the tokens are."""

    def __init__(self, past: Past) -> None:
        self.pacing: CallPacing | None = None
        self._past = past

    async def request(
        self, method: str, url: str, body: object, headers: object, *, limit_bytes: int = ANSWER_BYTES
    ) -> HttpAnswer:
        """Refuse.

        Raises:
            RequestNotSent: always.
        """
        raise RequestNotSent(self._past.sentence)

    async def close(self) -> None:
        """There is nothing to close."""


def held(past: Past) -> Response:
    """The answer to a tick, after which nothing was done."""
    return JSONResponse({"held": past.sentence})
