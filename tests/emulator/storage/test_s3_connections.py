"""moto's server answers also while clients say nothing."""

import json
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

import pytest

from emulator.storage.s3_connections import LimitedRequestHandler, LimitedServer

GET = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


class Handler(LimitedRequestHandler):
    """Logs nothing."""

    def log(self, *_: Any) -> None:
        pass


@pytest.fixture
def site() -> Iterable[Callable[..., Callable[[], socket.socket]]]:
    """Serves with room for some connections; a function that connects."""
    with ExitStack() as stack:

        def serve(limit: int, application: Callable[..., Iterable[bytes]]) -> Callable[[], socket.socket]:
            server = LimitedServer("127.0.0.1", 0, application, Handler, limit=limit)
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)

            def connect() -> socket.socket:
                client = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
                client.settimeout(60)
                return client

            return connect

        yield serve


def hello(_: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]


def ask(client: socket.socket, sent: bytes = GET) -> bytes:
    """The status line of the answer; empty if the connection was closed."""
    try:
        client.sendall(sent)
        return client.makefile("rb").readline().strip()
    except ConnectionError:
        return b""


def test_the_connection_that_is_silent_for_the_longest_makes_room(site: Any, capsys: Any) -> None:
    connect = site(3, hello)
    silent = [connect() for _ in range(8)]
    assert ask(connect()) == b"HTTP/1.1 200 OK"
    assert ask(silent[0], b"") == b""
    assert ask(silent[-1]) == b"HTTP/1.1 200 OK"
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == {"event": "s3.connections_closed", "level": "warning", "count": 1, "limit": 3}


def test_a_request_under_way_is_not_silent(site: Any) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def slow(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        begun.set()
        may_end.wait(60)
        return hello(environ, start_response)

    connect = site(1, slow)
    client = connect()
    client.sendall(GET)
    begun.wait(60)
    assert ask(connect(), b"") == b""
    may_end.set()
    assert ask(client, b"") == b"HTTP/1.1 200 OK"
