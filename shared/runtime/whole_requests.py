"""Connections for httpcore that send a short request in one piece.

httpcore writes head and body one after the other. Each write is a system call, wakes the platform's process, and goes
through all layers of its network backend.
"""

# ruff: noqa: ASYNC109 - the arguments are httpcore's

import contextlib
import ssl
from collections.abc import Iterable
from typing import Any

import httpcore

_PIECE_BYTES = 64 * 1024


class WholeRequests(httpcore.AnyIOBackend):
    """httpcore's backend for asyncio, with such connections."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        return OnePiece(await super().connect_tcp(host, port, timeout, local_address, socket_options))


class OnePiece(httpcore.AsyncNetworkStream):
    """Keeps what is written until there is a piece of it, or until httpcore waits for the answer."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream
        self._kept = b""

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._kept += buffer
        if len(self._kept) >= _PIECE_BYTES:
            await self._send(timeout)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._kept:
            with contextlib.suppress(httpcore.WriteError):  # as httpcore: there may be an answer all the same
                await self._send(timeout)
        return await self._stream.read(max_bytes, timeout)

    async def _send(self, timeout: float | None) -> None:
        kept, self._kept = self._kept, b""
        await self._stream.write(kept, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        return OnePiece(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
