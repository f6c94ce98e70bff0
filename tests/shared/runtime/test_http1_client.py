"""The HTTP client against real sockets: what it sends, and which answers it reads."""

import pytest

from shared.runtime.http_client import ANSWER_BYTES, AnswerTooLong, NoAnswer, RequestNotSent
from tests.shared.runtime.http_server import OK, Server, talk


def test_a_request_is_sent_exactly_as_given():
    server = Server([OK])

    async def work(_, post):
        return await post(b'{"a": 1}', "/bot1:T/send?x=%20", **{"Content-Type": "application/json"})

    assert talk(server, work) == (200, b"ok")
    ((head, body),) = server.requests
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /bot1:T/send?x=%20 HTTP/1.1"
    assert lines[1].startswith("Host: 127.0.0.1:")
    assert lines[2:] == ["Content-Length: 8", "Content-Type: application/json", "", ""]
    assert body == b'{"a": 1}'


def test_a_short_request_arrives_in_one_piece():
    arrived = []

    async def server(reader, writer):
        while piece := await reader.read(1 << 20):
            arrived.append(piece)
            writer.write(OK)

    async def work(_, post):
        for _ in range(20):
            await post(b'{"a": 1}')

    talk(server, work)
    assert [piece.endswith(b'\r\n\r\n{"a": 1}') for piece in arrived] == [True] * 20


class Pieces:
    """A body in pieces; ``None`` among them is an error of the caller's."""

    content_type = "multipart/form-data; boundary=b"

    def __init__(self, *pieces, size):
        self._pieces, self.size = pieces, size
        self.closed = 0

    async def pieces(self):
        try:
            for piece in self._pieces:
                if piece is None:
                    raise KeyError("the file shrank")
                yield piece
        finally:
            self.closed += 1


def test_a_body_in_pieces_has_a_length_and_can_be_sent_again():
    server = Server([OK])
    body = Pieces(b"ab", b"c" * 100_000, b"d", size=100_003)

    async def work(_, post):
        await post(body)
        return await post(body)

    assert talk(server, work) == (200, b"ok")
    (head, first), (_, second) = server.requests
    assert first == second == b"ab" + b"c" * 100_000 + b"d"
    assert b"Content-Type: multipart/form-data; boundary=b\r\n" in head
    assert (body.closed, server.connections) == (2, 1)


def test_an_error_of_the_body_ends_the_request_and_reaches_the_caller():
    server = Server([OK])
    body = Pieces(b"ab", None, size=5)

    async def work(_, post):
        with pytest.raises(KeyError, match="shrank"):
            await post(body)
        return await post()

    assert talk(server, work) == (200, b"ok")
    assert [whole for _, whole in server.requests] == [b"{}"]
    assert body.closed == 1


def test_an_answer_before_the_end_of_the_body_is_read():
    """A server may refuse a large upload early, and close."""

    async def server(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.write_eof()
        while await reader.read(1 << 20):
            pass

    async def work(_, post):
        return await post(Pieces(*[b"x" * 65536] * 50, size=50 * 65536))

    assert talk(server, work) == (413, b"")


def test_a_caller_may_allow_a_longer_or_a_shorter_answer():
    server = Server([b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (ANSWER_BYTES + 9) + b"x" * (ANSWER_BYTES + 9)])

    async def work(_, post):
        status, body = await post(limit_bytes=ANSWER_BYTES + 9)
        assert (status, len(body)) == (200, ANSWER_BYTES + 9)
        with pytest.raises(AnswerTooLong, match="longer than 100 bytes"):
            await post(limit_bytes=100)

    talk(server, work)


LENGTH_9 = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n"


@pytest.mark.parametrize(
    "pieces",
    [
        [LENGTH_9 + b"123456789"],
        [LENGTH_9, Server.HANG],
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n123456789\r\n", Server.HANG],
        [b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n123456789", Server.HANG],
    ],
    ids=["whole", "promised", "chunked", "endless"],
)
def test_reading_ends_with_the_first_byte_too_many(pieces):
    """Also where the server sends no more: the promise, or the first piece beyond the limit, is enough."""

    async def work(_, post):
        with pytest.raises(AnswerTooLong):
            await post(limit_bytes=8)

    talk(Server(pieces), work)


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([b"HTTP/1.1 204 No Content\r\n\r\n"], (204, b"")),
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"], (200, b"abc")),
        ([b"HTTP/1.1 100 Continue\r\n\r\n", OK], (200, b"ok")),
        ([b"HTTP/1.1 102 Processing\r\n\r\n" + OK], (200, b"ok")),
        ([b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the", b" end", Server.END], (200, b"until the end")),
        ([OK[:10], OK[10:30], OK[30:]], (200, b"ok")),
        ([b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"], (302, b"")),
        ([b"HTTP/1.1 429 Slow down\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx"], (429, b"x")),
    ],
    ids=["204", "chunked", "100", "102", "until the end", "in pieces", "redirect", "429"],
)
def test_an_answer_of_any_form_is_read(pieces, expected):
    assert talk(Server(pieces), lambda _, post: post()) == expected


@pytest.mark.parametrize(
    "pieces",
    [
        [Server.END],
        [OK[:-1], Server.END],
        [OK[:20], Server.END],
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", Server.END],
        [b"HTTP/1.1 100 Continue\r\n\r\n", Server.END],
        [b"what is this?\r\n\r\n"],
        [b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n" + b"x" * (ANSWER_BYTES + 1)],
        [b"HTTP/1.1 200 OK\r\nX: " + b"x" * 150_000, Server.HANG],
        [Server.HANG],
        [OK[:-1], Server.HANG],
    ],
    ids=[
        "closed",
        "cut",
        "cut head",
        "cut chunks",
        "only 100",
        "no HTTP",
        "101",
        "endless",
        "long head",
        "silent",
        "half",
    ],
)
def test_an_incomplete_answer_is_an_unknown_outcome_and_ends_the_connection(pieces):
    server = Server(pieces, [OK])

    async def work(_, post):
        with pytest.raises(NoAnswer) as caught:
            await post()
        assert "TOKEN" not in str(caught.value)
        return await post()

    assert talk(server, work, answer_limit_s=0.3) == (200, b"ok")
    assert (server.connections, len(server.requests)) == (2, 2)


def test_a_reset_is_an_unknown_outcome():
    async def server(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.abort()

    async def work(_, post):
        with pytest.raises(NoAnswer):
            await post(b"{}" * 100_000)

    talk(server, work)


def test_a_refused_connection_means_that_nothing_was_sent():
    async def work(client, _):
        with pytest.raises(RequestNotSent, match=r"^ConnectionRefusedError$"):
            await client.request("POST", "http://127.0.0.1:1/bot1:TOKEN/send", b"{}", {})

    talk(Server([OK]), work)


@pytest.mark.parametrize(
    ("url", "headers"),
    [
        ("ftp://127.0.0.1/x", {}),
        ("127.0.0.1/x", {}),
        ("http:///x", {}),
        ("http://127.0.0.1:99999/x", {}),
        ("http://127.0.0.1/a b", {}),
        ("http://127.0.0.1/\u00fc", {}),
        ("http://\u00fc.example/x", {}),
        (f"http://{'a' * 64}.example/x", {}),
        ("http://127.0.0.1/x", {"Authorization": "Bot TOKEN\r\nX: y"}),
        ("http://127.0.0.1/x", {"Authorization": "Bot TOKEN\u00fc"}),
    ],
)
def test_an_invalid_request_is_not_sent(url, headers):
    async def work(client, _):
        with pytest.raises(RequestNotSent) as caught:
            await client.request("POST", url, b"{}", headers)
        assert "TOKEN" not in str(caught.value)

    talk(Server([OK]), work)
