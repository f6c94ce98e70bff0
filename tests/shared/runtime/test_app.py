"""Requests that no client sends get the function's own answer: JSON, without a traceback in the log."""

import asyncio
import json

import pytest
from structlog.testing import capture_logs

from functions import api, ingest
from infra.runner.loader import load
from infra.runner.request_guard import RequestGuard
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
