"""What httpcore writes goes out in few pieces; ``test_http_client`` has real sockets."""

import asyncio

import httpcore
import pytest

from shared.runtime.whole_requests import OnePiece


class Wire(httpcore.AsyncNetworkStream):
    """A connection that keeps what is sent, and has an answer; a closed one takes nothing more."""

    def __init__(self, *, is_closed=False):
        self.sent, self.is_closed = [], is_closed

    async def write(self, buffer, timeout=None):  # noqa: ASYNC109 - httpcore's
        if self.is_closed:
            raise httpcore.WriteError
        self.sent.append((bytes(buffer), timeout))

    async def read(self, max_bytes, timeout=None):  # noqa: ASYNC109 - httpcore's
        return b"answer"[:max_bytes]


def exchange(wire, *pieces):
    async def go():
        stream = OnePiece(wire)
        for piece in pieces:
            await stream.write(piece, 5)
        before = len(wire.sent)
        return before, await stream.read(100, 7)

    return asyncio.run(go())


def test_a_short_request_goes_out_when_its_answer_is_awaited():
    wire = Wire()
    assert exchange(wire, b"head", b"body") == (0, b"answer")
    assert wire.sent == [(b"headbody", 7)]


def test_a_long_body_goes_out_as_it_comes():
    wire = Wire()
    assert exchange(wire, b"head", b"x" * 65536, b"y" * 65536, b"end") == (2, b"answer")
    assert [len(piece) for piece, _ in wire.sent] == [65540, 65536, 3]


def test_an_early_answer_is_read_although_the_rest_can_not_be_sent():
    assert exchange(Wire(is_closed=True), b"head", b"body") == (0, b"answer")


def test_nothing_is_sent_twice():
    wire = Wire()

    async def go():
        stream = OnePiece(wire)
        await stream.write(b"head")
        await stream.read(100)
        await stream.read(100)

    asyncio.run(go())
    assert [piece for piece, _ in wire.sent] == [b"head"]


def test_what_was_kept_is_not_sent_at_the_close():
    wire = Wire()

    async def go():
        stream = OnePiece(wire)
        await stream.write(b"half of a request")
        with pytest.raises(NotImplementedError):  # the wire's own; nothing was sent before
            await stream.aclose()

    asyncio.run(go())
    assert wire.sent == []
