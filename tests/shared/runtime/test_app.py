"""Every refusal and every failure of a function is JSON, also for requests that no client sends."""

import asyncio
import json

import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse
from starlette.routing import Route
from structlog.testing import capture_logs

from functions import api, ingest
from infra.runner.loader import load
from infra.runner.request_guard import RequestGuard
from shared.runtime.app import AppResponse, function_app
from tests.serving import environment  # noqa: F401 - the database and the settings of the functions

MALFORMED = {
    "a host that does not end": ("/healthz", [b"[::1"]),
    "a host with a path": ("/healthz", [b"localhost/.."]),
    "a host that is no ASCII": ("/healthz", ["é.example".encode()]),
    "two hosts": ("/healthz", [b"localhost", b"example.org"]),
    "a line break at the end of a path": ("/healthz\n", [b"localhost"]),
    "a line break in a path": ("/healthz\n/x", [b"localhost"]),
    "a null byte in a path": ("/api/agents/\x00", [b"localhost"]),
    "a line break in the name of a channel": ("/webhooks/telegram\n", [b"localhost"]),
}


def exchange(module, *, method="GET", path="/healthz", hosts=(b"localhost",), received=()):
    """Status and JSON of the answer, as the runner serves the function, and the log of the request."""
    messages = [*received, {"type": "http.request", "body": b"", "more_body": False}]
    sent = []

    async def receive():
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    async def go():
        name = module.__name__.rpartition(".")[2]
        app = RequestGuard(load(name), name=name, timeout_ms=60_000)
        scope = {"type": "http", "method": method, "path": path, "http_version": "1.1", "query_string": b""}
        headers = [(b"host", host) for host in hosts] + [(b"x-telegram-bot-api-secret-token", b"x")]
        async with module.lifespan(app):
            await app({**scope, "headers": headers, "client": ("127.0.0.1", 50_000)}, receive, send)

    with capture_logs() as logged:
        asyncio.run(go())
    body = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], json.loads(body), [line["event"] for line in logged]


@pytest.mark.parametrize("module", [api, ingest], ids=["api", "ingest"])
@pytest.mark.parametrize(("path", "hosts"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_request_is_answered_by_the_function(module, path, hosts):
    status, body, logged = exchange(module, path=path, hosts=hosts)
    assert status == 400
    assert "send" in body["error"]
    assert "request.failed" not in logged


@pytest.mark.parametrize("module", [api, ingest], ids=["api", "ingest"])
def test_a_method_that_no_route_has_gets_a_sentence(module):
    status, body, _ = exchange(module, method="PROPFIND")
    assert status == 405
    assert body["error"]


def test_a_client_that_leaves_within_its_body_is_no_failure():
    gone = [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}]
    status, body, logged = exchange(ingest, method="POST", path="/webhooks/telegram", received=gone)
    assert status == 499
    assert "disconnected" in body["error"]
    assert "request.failed" not in logged


async def refuses(_):
    raise HTTPException(409, "not now", {"Retry-After": "7"})


async def breaks(_):
    raise RuntimeError("a fault of ours")


async def breaks_off(_):
    async def pieces():
        yield b"the begin"
        raise RuntimeError("a fault of ours")

    return StreamingResponse(pieces())


def ask(path, *, within=lambda app: app):
    """What a function's app sends for a request, and the error that it lets through."""
    routes = [Route(f"/{route.__name__}", route) for route in (refuses, breaks, breaks_off)]
    app = within(function_app("sample", routes))
    scope = {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b""}
    sent = []

    async def receive():
        await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    async def go():
        try:
            await app(scope, receive, send)
        except RuntimeError as error:
            return str(error)

    error = asyncio.run(go())
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent), error


def under_the_framework(app):
    """Its Starlette has handlers of its own, which answer in plain text."""

    async def handler(_):
        return AppResponse(app)

    return Starlette(routes=[Route("/{path:path}", handler)])


@pytest.mark.parametrize("within", [lambda app: app, under_the_framework], ids=["alone", "functions-framework"])
@pytest.mark.parametrize(
    ("path", "status", "error"), [("/refuses", 409, "not now"), ("/nothing", 404, "Not Found")], ids=["route", "router"]
)
def test_a_refusal_is_json_wherever_the_function_is_served(within, path, status, error):
    assert ask(path, within=within) == (status, json.dumps({"error": error}, separators=(",", ":")).encode(), None)


def test_an_error_of_ours_is_a_500_and_goes_on_to_the_server():
    status, body, error = ask("/breaks")
    assert (status, error) == (500, "a fault of ours")
    assert json.loads(body) == {"error": "sample failed on this request; its log says why"}


def test_an_error_after_the_beginning_of_an_answer_adds_nothing_to_it():
    assert ask("/breaks_off") == (200, b"the begin", "a fault of ours")
