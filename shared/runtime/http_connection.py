"""One connection to a host, over HTTP/1.1, for one request at a time. httptools reads the answers.

Nothing here asks with ``HEAD``: the parser would wait for a body.
"""

import asyncio
import select
from collections.abc import AsyncGenerator

import httptools

from shared.runtime.http_client import NoAnswer

_KEPT_BYTES = 256 * 1024  # read ahead of the caller
_HEAD_BYTES = 128 * 1024
_LENGTHS = (b"content-length", b"transfer-encoding")


class HostConnection(asyncio.Protocol):
    """What one task asks, and reads of the answer. After a failure, and after ``abort``, nothing more can be asked.

    Attributes:
        status: of the answer, when ``head`` has returned.
        headers: of the answer, as they came.
    """

    def __init__(self) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self._transport: asyncio.Transport | None = None
        self._silence_s = 0.0
        self._is_asked = False  # until the answer is whole
        self._has_head = False
        self._is_whole = False
        self._is_reusable = False
        self._is_full = False  # the host takes no more at the moment
        self._lost = ""  # why there is no connection any more
        self._head_bytes = 0
        self._kept = bytearray()
        self._news: asyncio.Future[None] | None = None

    def begin(self, silence_s: float) -> None:
        """The next request.

        Args:
            silence_s: the host may take so long for each piece of it, and of the answer.
        """
        self._parser = httptools.HttpResponseParser(self)
        self._silence_s = silence_s
        self._is_asked, self._has_head, self._is_whole, self._is_reusable = True, False, False, True
        self._head_bytes = 0
        self.headers = []

    async def write(self, piece: bytes) -> bool:
        """Send a piece, and wait while the host takes no more. False: it takes nothing more, but may have answered.

        Raises:
            NoAnswer: the host took nothing for too long.
        """
        if self._transport is None or self._is_whole:
            self._is_reusable = False
            return False
        self._transport.write(piece)
        while self._is_full and self._transport is not None and not self._is_whole:
            await self._change()
        return True

    async def head(self) -> None:
        """Wait for the status and the headers.

        Raises:
            NoAnswer: they don't come.
        """
        while not self._has_head:
            await self._change()

    async def pieces(self) -> AsyncGenerator[bytes]:
        """The body, as it comes.

        Raises:
            NoAnswer: it ends before its end.
        """
        while self._kept or not self._is_whole:
            if not self._kept:
                await self._change()
                continue
            piece = bytes(self._kept)
            self._kept.clear()
            if self._transport is not None:
                self._transport.resume_reading()
            yield piece

    def is_idle(self) -> bool:
        """Whether it can be asked again: the last answer was whole, and the host has neither closed nor said more."""
        if self._transport is None or not self._is_whole or not self._is_reusable or self._kept:
            return False
        unread = select.poll()
        unread.register(self._transport.get_extra_info("socket").fileno(), select.POLLIN)
        return not unread.poll(0)

    def abort(self, why: str = "ConnectionAborted") -> None:
        """Close at once; what was read of a whole answer can still be read."""
        transport, self._transport = self._transport, None
        if transport is not None:
            self._lost = why
            transport.abort()
            self._tell()

    async def _change(self) -> None:
        """Wait for news."""
        if self._lost:
            raise NoAnswer(self._lost)
        self._news = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(self._silence_s):
                await self._news
        except TimeoutError:
            raise NoAnswer("TimeoutError") from None
        finally:
            self._news = None

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # of a stream

    def data_received(self, data: bytes) -> None:
        if not self._is_asked:
            self.abort()  # it answers nothing
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self.abort(type(error).__name__)
        if not self._has_head:
            self._head_bytes += len(data)
            if self._head_bytes > _HEAD_BYTES:
                self.abort("HeadTooLong")
        if len(self._kept) > _KEPT_BYTES and self._transport is not None:
            self._transport.pause_reading()
        self._tell()

    def eof_received(self) -> None:
        is_endless = self._has_head and not any(name.lower() in _LENGTHS for name, _ in self.headers)
        self._is_whole = self._is_whole or is_endless
        self.abort("ConnectionClosed")

    def connection_lost(self, exc: Exception | None) -> None:
        self.abort(type(exc).__name__ if exc is not None else "ConnectionClosed")

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._tell()

    # What the parser calls.

    def on_message_begin(self) -> None:
        self._is_reusable = not self._is_whole  # otherwise it answers twice

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._has_head:
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        if self.status < 200:
            self.headers.clear()  # the answer comes after it
        else:
            self._has_head = True

    def on_body(self, body: bytes) -> None:
        self._kept += body

    def on_message_complete(self) -> None:
        if self._has_head:
            self._is_asked, self._is_whole = False, True
            self._is_reusable = self._is_reusable and self._parser.should_keep_alive()
