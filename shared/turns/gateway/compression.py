"""Reads compressed bodies: the gateway counts what is in them, and passes them on plain."""

import zlib
from collections.abc import AsyncGenerator

from shared.runtime.http_client import NoAnswer
from shared.runtime.http_connection import HostConnection
from shared.turns.gateway.headers import Headers

_WINDOWS = {b"gzip": 31, b"x-gzip": 31, b"deflate": 15}  # as zlib wants them
_PIECE_BYTES = 1024 * 1024


class CodingUnknown(Exception):
    """The body is compressed in a way that we can't read."""


def reader(headers: Headers) -> "zlib._Decompress | None":
    """What reads the body with these headers; None: it is plain.

    Raises:
        CodingUnknown: nothing here does.
    """
    coding = next((value for name, value in headers if name.lower() == b"content-encoding"), b"identity")
    coding = coding.strip().lower()
    if coding == b"identity":
        return None
    if coding not in _WINDOWS:
        raise CodingUnknown
    return zlib.decompressobj(_WINDOWS[coding])


async def plain_pieces(answer: HostConnection) -> AsyncGenerator[bytes]:
    """The body of a host's answer, as it comes. It is asked for a plain one, but may compress all the same.

    Raises:
        NoAnswer: it ends before its end, or can't be read.
    """
    try:
        plain = reader(answer.headers)
        async for piece in answer.pieces():
            if plain is None:
                yield piece
                continue
            while piece:
                if read := plain.decompress(piece, _PIECE_BYTES):
                    yield read
                piece = plain.unconsumed_tail
    except (CodingUnknown, zlib.error) as error:
        raise NoAnswer(type(error).__name__) from None
