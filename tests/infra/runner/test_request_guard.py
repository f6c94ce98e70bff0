import asyncio

from starlette.responses import Response
from structlog.testing import capture_logs

from infra.runner.request_guard import RequestGuard
from shared.runtime import request_line


def test_one_line_tells_what_came_of_a_request_and_how_it_was_answered():
    async def stored(scope, receive, send):
        request_line.tell(scope, "ingest.stored", stored=1)
        await Response("x", 202)(scope, receive, send)

    async def go():
        async def send(_):
            """Nobody reads the response."""

        scope = {"type": "http", "method": "POST", "path": "/webhooks/telegram", "headers": []}
        await RequestGuard(stored, name="ingest", timeout_ms=60_000)(scope, send, send)

    with capture_logs() as logged:
        asyncio.run(go())
    (line,) = logged
    assert line.pop("ms") >= 0
    assert line == {
        **{"event": "ingest.stored", "log_level": "info", "stored": 1},
        **{"method": "POST", "path": "/webhooks/telegram", "status": 202},
    }
