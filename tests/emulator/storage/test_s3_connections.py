"""S3 answers also while clients say nothing."""

import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

import pytest

from emulator.storage.s3_connections import LimitedServer, S3Connection
from emulator.storage.s3_requests import Answer

GET = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
PUT = b"PUT /b/key HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4\r\n\r\nbody"

Read = Callable[[int], bytes]


class Impatient(S3Connection):
    """Disconnects at once a client that is silent."""

    silent_s = 0.05


def plainly(environ: dict[str, Any], read: Read) -> Answer | None:
    """The answer to a PUT is its body and the name of the thread; all else is for moto's way."""
    if environ["REQUEST_METHOD"] != "PUT":
        return None
    body = read(int(environ["CONTENT_LENGTH"])) + threading.current_thread().name.encode()
    return "200 OK", [("Content-Length", str(len(body)))], [body]


def hello(_: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]


class App:
    """An application of two functions: what is ours, and the rest."""

    def __init__(self, answer: Callable[..., Answer | None] = plainly, rest: Callable[..., Any] = hello) -> None:
        self.answer = answer
        self._rest = rest

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        found: Iterable[bytes] = self._rest(environ, start_response)
        return found


@pytest.fixture
def site() -> Iterable[Callable[..., Callable[[], socket.socket]]]:
    """Serves with room for some connections; a function that connects."""
    with ExitStack() as stack:

        def serve(limit: int, app: App, handler: type[S3Connection] = S3Connection) -> Callable[[], socket.socket]:
            server = LimitedServer(0, app, limit=limit, handler=handler)
            stack.callback(server.server_close)
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


def told(client: socket.socket, sent: bytes = PUT) -> tuple[int, str | None, bytes]:
    """Status, Connection and body of one answer, of which nothing more is read."""
    client.sendall(sent)
    answer = http.client.HTTPResponse(client)
    answer.begin()
    return answer.status, answer.getheader("Connection"), answer.read()


def ask(client: socket.socket, sent: bytes = GET) -> bytes:
    """The status line of the answer; empty if the connection was closed."""
    try:
        client.sendall(sent)
        return client.makefile("rb").readline().strip()
    except ConnectionError:
        return b""


def test_the_connection_that_is_silent_for_the_longest_makes_room(site: Any, capsys: Any) -> None:
    connect = site(3, App())
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

    connect = site(1, App(rest=slow))
    client = connect()
    client.sendall(GET)
    begun.wait(60)
    assert ask(connect(), b"") == b""
    may_end.set()
    assert ask(client, b"") == b"HTTP/1.1 200 OK"


def test_plain_puts_share_a_connection_and_its_thread(site: Any) -> None:
    client = site(3, App())()
    answers = [told(client) for _ in range(3)]
    assert [(status, connection, body[:4]) for status, connection, body in answers] == [(200, None, b"body")] * 3
    assert len({body for _, _, body in answers}) == 1


def test_a_plain_put_may_come_before_the_answer_to_the_last(site: Any) -> None:
    client = site(3, App())()
    client.sendall(PUT * 3)
    client.shutdown(socket.SHUT_WR)
    received = b"".join(iter(lambda: client.recv(4096), b""))
    assert (received.count(b"HTTP/1.1 200 OK"), received.count(b"\r\n\r\nbody")) == (3, 3)


@pytest.mark.parametrize(
    ("second", "status"),
    [(GET, 200), (b"PUT /b/key HTTP/1.1\r\nno header\r\n\r\n", 200), (GET[:-2] + b"A: b\r\n" * 100 + b"\r\n", 431)],
    ids=["another method", "a malformed header", "too many headers"],
)
def test_what_follows_a_plain_put_and_is_none_ends_the_connection(site: Any, second: bytes, status: int) -> None:
    client = site(3, App())()
    assert told(client)[0] == 200
    assert told(client, second)[:2] == (status, "close")
    assert client.recv(1) == b""


def test_what_is_no_http_ends_a_kept_connection(site: Any) -> None:
    client = site(3, App())()
    told(client)
    client.sendall(b"nonsense\r\n\r\n")
    assert b"400" in b"".join(iter(lambda: client.recv(4096), b""))


def test_a_head_in_pieces_is_answered(site: Any) -> None:
    client = site(3, App())()
    told(client)
    client.sendall(PUT[:30])
    assert told(client, PUT[30:])[0] == 200


def test_a_plain_put_that_is_refused_ends_the_connection(site: Any) -> None:
    client = site(3, App(lambda *_: ("400 Bad Request", [("Content-Length", "2")], [b"no"])))()
    assert told(client) == (400, "close", b"no")
    assert client.recv(1) == b""


def test_what_is_not_answered_plainly_is_for_the_application_with_all_of_its_body(site: Any) -> None:
    def echo(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        start_response("200 OK", [("Content-Length", "4")])
        return [environ["wsgi.input"].read(4)]

    assert told(site(3, App(lambda *_: None, echo))()) == (200, "close", b"body")


def test_a_kept_connection_makes_room_before_one_that_has_not_asked_yet(site: Any) -> None:
    connect = site(2, App())
    silent, kept = connect(), connect()
    told(kept)
    third = connect()
    assert told(third)[0] == 200
    assert kept.recv(1) == b""
    assert told(silent)[0] == 200


def test_a_plain_put_under_way_on_a_kept_connection_is_not_silent(site: Any) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def slow(environ: dict[str, Any], read: Read) -> Answer | None:
        begun.set()
        may_end.wait(60)
        return plainly(environ, read)

    connect = site(1, App(slow))
    client = connect()
    may_end.set()
    told(client)
    begun.clear(), may_end.clear()
    client.sendall(PUT)
    begun.wait(60)
    assert ask(connect(), b"") == b""
    may_end.set()
    assert told(client, b"")[0] == 200


def test_a_kept_connection_without_requests_is_closed_in_the_end(site: Any) -> None:
    client = site(3, App(), Impatient)()
    told(client)
    assert client.recv(1) == b""
