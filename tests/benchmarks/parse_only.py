"""``ingest`` without the store: the same verification, parsing and answer. The difference is the cost of storing."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from shared.channels import registry
from shared.channels.base import WebhookRequest
from shared.core.time import clock
from shared.runtime import framework
from shared.runtime.app import AppResponse, function_app, read_body


async def _webhook(request: Request) -> Response:
    body = await read_body(request)
    asked = WebhookRequest(request.method, request.query_params, dict(request.headers), body)
    received = registry.get(request.path_params["channel"]).receive(asked, now_ms=clock.now_ms())
    return Response(received.reply.body, received.reply.status)


_app = function_app("parse_only", [Route("/webhooks/{channel}", _webhook, methods=["POST"])])


@framework.http
async def parse_only(_: Request) -> Response:
    """The handler."""
    return AppResponse(_app)


@asynccontextmanager
async def lifespan(_: ASGIApp) -> AsyncIterator[None]:
    """Nothing to open."""
    yield
