"""What one client sends, or does not send, costs the others nothing."""

import asyncio
import json

import pytest
import uvicorn
from structlog.testing import capture_logs

from shared.runtime.connections import (
    HEAD_BYTES,
    HEAD_S,
    KEEP_ALIVE_S,
    MOST_HEADERS,
    REQUEST_BYTES,
    Connections,
    LimitedProtocol,
)

GET = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
STREAM = b"GET /stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


async def app(scope, receive, send):
    """Answers with the length of the body; at ``/stream`` it begins an answer and never ends it."""
    length, is_complete = 0, False
    while not is_complete:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        length += len(message["body"])
        is_complete = not message["more_body"]
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"7")]})
    if scope["path"] == "/stream":
        await send({"type": "http.response.body", "body": b"b", "more_body": True})
        await asyncio.Event().wait()
    await send({"type": "http.response.body", "body": b"%7d" % length})


class Server:
    """The protocol behind a port."""

    def __init__(self, connections, port):
        self.connections = connections
        self._port = port
        self._writers = []

    async def connect(self, sent=b""):
        """A connection that the server knows of, on which *sent* went out."""
        before = len(self.connections.connections)
        streams = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers.append(streams[1])
        streams[1].write(sent)
        async with asyncio.timeout(60):
            while len(self.connections.connections) == before and before < self.connections.limit:  # noqa: ASYNC110 - the server is not ours
                await asyncio.sleep(0.001)
        return streams

    def close(self):
        for writer in self._writers:
            writer.close()


def play(scenario, limit=50):
    """Run *scenario* against a server with room for *limit* connections; returns the lines of its log."""

    async def go():
        connections = Connections(limit)
        config = uvicorn.Config(app, log_config=None, lifespan="off", ws="none", access_log=False)
        config.load()
        loop = asyncio.get_running_loop()
        listening = await loop.create_server(lambda: LimitedProtocol(config, connections, {}), "127.0.0.1", 0)
        server = Server(connections, listening.sockets[0].getsockname()[1])
        try:
            async with asyncio.timeout(90):
                await scenario(server)
        finally:
            server.close()
            listening.close()
            for each in list(connections.connections):
                each.transport.abort()
        connections.close_late(loop.time())

    with capture_logs() as logged:
        asyncio.run(go())
    return [line for line in logged if line["event"] == "connections.closed"]


async def answer(streams, sent=b""):
    """Status and JSON (or text) of the answer; (0, None) if the connection was closed without one."""
    reader, writer = streams
    writer.write(sent)
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return 0, None
    fields = dict(line.lower().split(": ", 1) for line in head.decode().splitlines()[1:] if line)
    body = await reader.readexactly(int(fields["content-length"]))
    return int(head.split()[1]), json.loads(body) if fields.get("content-type") == "application/json" else body.strip()


def stop(server):
    """Tell each connection what uvicorn tells it when the server stops."""
    for each in list(server.connections.connections):
        each.shutdown()


def head_of(size):
    """A complete head of so many bytes."""
    return GET + b"X: " + b"a" * (size - len(GET) - 7) + b"\r\n\r\n"


def headers(count, end=b"\r\n"):
    return b"GET / HTTP/1.1\r\n" + b"".join(b"a%d: b\r\n" % number for number in range(count)) + end


TOO_LARGE = {
    "a long URL": b"GET /" + b"a" * HEAD_BYTES,
    "a long header": GET + b"X: " + b"a" * (HEAD_BYTES - len(GET) - 2),
    "a whole head that is too large by one byte": head_of(HEAD_BYTES + 1),
    "many headers": headers(MOST_HEADERS + 1),
    "many headers without an end": headers(MOST_HEADERS + 2, end=b""),  # the parser hands the last one over late
}


@pytest.mark.parametrize("sent", TOO_LARGE.values(), ids=TOO_LARGE)
def test_a_head_that_is_too_large_is_refused_and_logged(sent):
    async def scenario(server):
        status, body = await answer(await server.connect(), sent)
        assert status == 431
        assert "shorten its URL or headers" in body["error"]

    (line,) = play(scenario)
    assert (line["log_level"], line["too_large"]) == ("warning", 1)


@pytest.mark.parametrize("sent", [head_of(HEAD_BYTES), headers(MOST_HEADERS)], ids=["bytes", "headers"])
def test_a_head_within_the_limits_is_answered(sent):
    async def scenario(server):
        streams = await server.connect()
        assert await answer(streams, sent) == (200, b"0")
        assert await answer(streams, sent) == (200, b"0")

    assert play(scenario) == []


def test_a_body_that_comes_with_its_head_is_no_head():
    async def scenario(server):
        sent = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 500000\r\n\r\n" + b"x" * 500_000
        assert await answer(await server.connect(), sent + sent) == (200, b"500000")

    assert play(scenario) == []


def test_what_follows_a_body_is_limited():
    """Trailers have no limit in the parser, and each of them would be kept."""

    async def scenario(server):
        begun = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"
        assert await answer(await server.connect(), begun + b"a: b\r\n" * 1000) == (0, None)
        assert await answer(await server.connect(), begun + b"a: " + b"b" * (REQUEST_BYTES + 500_000)) == (0, None)

    (line,) = play(scenario)
    assert line["too_large"] == 2


def test_the_next_head_is_limited_while_an_answer_is_under_way():
    async def scenario(server):
        reader, writer = await server.connect(STREAM)
        await reader.readuntil(b"\r\n\r\nb")
        assert await answer((reader, writer), GET + b"X: " + b"a" * HEAD_BYTES) == (0, None)

    (line,) = play(scenario)
    assert line["too_large"] == 1


def test_what_is_no_http_gets_a_sentence():
    async def scenario(server):
        status, body = await answer(await server.connect(), b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n")
        assert status == 400
        assert "without TLS" in body["error"]

    assert play(scenario) == []


# -- the number of connections -----------------------------------------------------------------------------------------


def test_the_connection_that_is_silent_for_the_longest_makes_room():
    async def scenario(server):
        silent = [await server.connect() for _ in range(3)]
        assert await answer(silent[0], GET + b"\r\n") == (200, b"0")  # silent anew, after the others
        new = await server.connect()
        assert await answer(silent[1]) == (0, None)
        for each in (silent[0], silent[2], new):
            assert await answer(each, GET + b"\r\n") == (200, b"0")

    (line,) = play(scenario, limit=3)
    assert (line["log_level"], line["evicted"], line["limit"]) == ("warning", 1, 3)


UNFINISHED = {
    "a head": GET,
    "a body": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhell",
    "another body": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
}


@pytest.mark.parametrize("sent", UNFINISHED.values(), ids=UNFINISHED)
def test_a_client_that_does_not_finish_its_request_is_silent(sent):
    async def scenario(server):
        unfinished = await server.connect(sent)
        new = await server.connect()
        assert await answer(unfinished) == (0, None)
        assert await answer(new, GET + b"\r\n") == (200, b"0")

    (line,) = play(scenario, limit=1)
    assert line["evicted"] == 1


def test_a_stream_is_not_silent_and_a_connection_too_many_is_told():
    async def scenario(server):
        streams = [await server.connect(STREAM) for _ in range(2)]
        for reader, _ in streams:
            await reader.readuntil(b"\r\n\r\nb")
        status, body = await answer(await server.connect(), GET + b"\r\n")
        assert status == 503
        assert "too many connections" in body["error"]
        health = GET.replace(b"/ ", b"/healthz ") + b"\r\n"
        assert await answer(await server.connect(), health) == (200, b"0")  # the function works
        assert not any(reader.at_eof() for reader, _ in streams)

    (line,) = play(scenario, limit=2)
    assert line["refused"] == 2


# -- time --------------------------------------------------------------------------------------------------------------


def test_a_client_that_says_nothing_is_disconnected():
    async def scenario(server):
        now_s = asyncio.get_running_loop().time()
        silent, kept, stream = [await server.connect(sent) for sent in (b"", GET + b"\r\n", STREAM)]
        assert await answer(kept) == (200, b"0")
        await stream[0].readuntil(b"\r\n\r\nb")
        server.connections.close_late(now_s + HEAD_S - 1)
        server.connections.close_late(now_s + HEAD_S + 10)
        assert await answer(silent) == (0, None)
        assert await answer(kept, GET + b"\r\n") == (200, b"0")
        server.connections.close_late(asyncio.get_running_loop().time() + KEEP_ALIVE_S + 1)
        assert await answer(kept) == (0, None)
        assert not stream[0].at_eof()

    (line,) = play(scenario)
    assert (line["log_level"], line["late"]) == ("info", 1)


def test_more_bytes_of_a_head_buy_no_time():
    async def scenario(server):
        now_s = asyncio.get_running_loop().time()
        slow = await server.connect(b"GET / HT")
        slow[1].write(b"TP/1.1\r\n")
        server.connections.close_late(now_s + HEAD_S + 10)
        assert await answer(slow) == (0, None)

    assert len(play(scenario)) == 1


def test_at_a_stop_the_first_request_of_a_new_connection_is_still_answered():
    async def scenario(server):
        streams = await server.connect()
        stop(server)

        assert await answer(streams, GET + b"\r\n") == (200, b"0")
        assert await streams[0].read() == b""  # and then the connection is closed

    play(scenario)


def test_at_a_stop_a_new_connection_without_a_request_is_closed():
    async def scenario(server):
        reader, _ = await server.connect()
        stop(server)

        assert await reader.read() == b""

    play(scenario)
