"""The network of the world: connections with a delay, which break with the process at either end.

The product's own HTTP client speaks here, byte for byte; the other side is a *host*, which answers requests.
"""

import asyncio
import random
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httptools

from tests.simulation.machine.loop import LANE, Lane, SimulatedLoop, context_of


@dataclass(slots=True)
class Asked:
    """A request as it came over a wire."""

    method: str
    path: str
    body: bytes
    headers: dict[str, str]


@dataclass(slots=True)
class Told:
    """What the host does: it answers, after *after_s*. *cut*: after so many bytes of it, the connection ends."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    after_s: float = 0.0
    cut: int | None = None

    def as_bytes(self) -> bytes:
        named = {"Content-Type": "application/json", "Content-Length": str(len(self.body)), **self.headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
        return f"HTTP/1.1 {self.status} X\r\n{lines}\r\n".encode() + self.body


Host = Callable[[Asked], Told | None]
"""None: it never answers. Called at the instant at which the request has arrived as a whole."""


class Wires:
    """All connections. *hosts* holds what listens, by address; an address that is missing refuses."""

    def __init__(self, loop: SimulatedLoop, dice: random.Random) -> None:
        self.loop = loop
        loop.wires = self
        self.dice = dice
        self.hosts: dict[object, Host] = {}
        self.open: list[Wire] = []
        self.calls_left = 0
        self.on_call: Callable[[Lane], None] | None = None  # after so many calls of platforms, once; gets the caller
        self.pollable = socket.socketpair()[0]  # nothing ever comes: a wire that is whole has nothing to say

    async def connect(self, address: object, make: Callable[[], asyncio.Protocol]) -> tuple["Wire", asyncio.Protocol]:
        await asyncio.sleep(self.delay())
        host = self.hosts.get(address)
        if host is None:
            raise ConnectionRefusedError(f"nothing listens at {address}")
        wire = Wire(self, address, host, make())
        self.open.append(wire)
        wire.protocol.connection_made(wire)
        return wire, wire.protocol

    def note_call(self, wire: "Wire") -> None:
        """A host has done what it was asked, and its answer is under way."""
        if self.on_call is not None and isinstance(wire.address, tuple):
            self.calls_left -= 1
            if self.calls_left < 0:
                self.loop.call_soon(self.on_call, wire.lane)
                self.on_call = None

    def delay(self) -> float:
        return self.dice.uniform(0.0005, 0.02)

    def end_of(self, lane: Lane) -> None:
        """The process of *lane* is dead: what it has sent arrives all the same."""
        for wire in [each for each in self.open if each.lane is lane]:
            wire.is_whole = False
            self.open.remove(wire)

    def unplug(self, address: object) -> None:
        """What listened there is gone."""
        self.hosts.pop(address, None)
        for wire in [each for each in self.open if each.address == address]:
            wire.lose()


class Wire(asyncio.Transport):
    """One connection, as its client sees it."""

    def __init__(self, wires: Wires, address: object, host: Host, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self.address = address
        self.protocol = protocol
        self.lane = LANE.get()
        self.is_whole = True
        self._wires = wires
        self._host = host
        self._reader = _Reader(self._ask)
        self._there_at = self._back_at = 0.0

    def write(self, data: Any) -> None:
        if self.is_whole and not self.lane.is_dead:
            loop = self._wires.loop
            self._there_at = max(self._there_at, loop.time() + self._wires.delay())
            loop.call_at(self._there_at, self._reader.feed, bytes(data), context=context_of(loop.outside))

    def _ask(self, asked: Asked) -> None:
        told = self._host(asked)
        self._wires.note_call(self)
        if told is None:
            return
        loop = self._wires.loop
        self._back_at = max(self._back_at, loop.time() + told.after_s + self._wires.delay())
        data = told.as_bytes()
        if told.cut is not None:
            loop.call_at(self._back_at, self._receive, data[: told.cut])
            loop.call_at(self._back_at, self.lose)
        else:
            loop.call_at(self._back_at, self._receive, data)

    def _receive(self, data: bytes) -> None:
        """In the world's lane; the process reads when it runs."""
        if self.is_whole and data:
            self._call(self.protocol.data_received, data)

    def lose(self) -> None:
        """The other side is gone."""
        if self.is_whole:
            self.is_whole = False
            self._wires.open.remove(self)
            self._call(self.protocol.connection_lost, ConnectionResetError())

    def _call(self, callback: Callable[..., object], *args: Any) -> None:
        if not self.lane.is_dead:
            self.lane.ready.append(asyncio.Handle(callback, args, self._wires.loop, context_of(self.lane)))

    def abort(self) -> None:
        if self.is_whole:
            self.is_whole = False
            self._wires.open.remove(self)

    close = abort

    def is_closing(self) -> bool:
        return not self.is_whole

    def pause_reading(self) -> None:
        """The answers here are short."""

    resume_reading = pause_reading

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._wires.pollable if name == "socket" else default


class _Reader:
    """Requests out of bytes; the rest of one whose sender died is thrown away."""

    def __init__(self, on_request: Callable[[Asked], None]) -> None:
        self._on_request = on_request
        self._parser = httptools.HttpRequestParser(self)
        self._headers: dict[str, str] = {}
        self._url = b""
        self._body = bytearray()

    def feed(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode().lower()] = value.decode()

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        asked = Asked(self._parser.get_method().decode(), self._url.decode(), bytes(self._body), self._headers)
        self._headers, self._url, self._body = {}, b"", bytearray()
        self._on_request(asked)
