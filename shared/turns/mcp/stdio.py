"""The tools on standard input and output, for a program that a person runs, such as a desktop client or an editor."""

import asyncio
from types import TracebackType
from typing import Any, Self

import mcp.server.stdio

from shared.agents.access import Toolbox
from shared.turns.mcp.server import sdk_server

_INSTRUCTIONS = (
    "Tools of Postroom, used as one of its agents: what you send goes out to the agent's chats and agents at once. "
    "list_destinations names them."
)


async def serve(tools: Toolbox) -> None:
    """Serve until standard input ends and each call is answered. Only the protocol may write to standard output."""
    async with mcp.server.stdio.stdio_server() as (reading, writing):
        await converse(tools, reading, writing)


async def converse(tools: Toolbox, reading: Any, writing: Any) -> None:
    """Serve over these streams of the SDK."""
    server, calls = sdk_server(lambda _: tools, _INSTRUCTIONS), _OpenCalls()
    await server.run(_Reading(reading, calls), _Writing(writing, calls), server.create_initialization_options())


class _OpenCalls:
    """The requests that have no answer yet."""

    def __init__(self) -> None:
        self._ids: set[object] = set()
        self._changed = asyncio.Event()

    def note(self, message: Any) -> None:
        """A message came in."""
        if getattr(message, "method", None) == "notifications/cancelled":
            self.end((getattr(message, "params", None) or {}).get("requestId"))
        elif hasattr(message, "method") and (id_ := getattr(message, "id", None)) is not None:
            self._ids.add(id_)

    def end(self, id_: object) -> None:
        """A request was answered, or nobody wants its answer."""
        self._ids.discard(id_)
        self._changed.set()

    async def wait(self) -> None:
        """Until none is left."""
        while self._ids:
            self._changed.clear()
            await self._changed.wait()


class _Stream:
    """A stream of the SDK, closed with it."""

    def __init__(self, inner: Any, calls: _OpenCalls) -> None:
        self._inner = inner
        self._calls = calls

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class _Reading(_Stream):
    """What comes in. Its end waits for the open calls: the SDK cancels them there, though they may have had effect.

    A client that reads no answer would call again, and people would read a text twice.
    """

    @property
    def last_context(self) -> Any:
        return self._inner.last_context

    def __aiter__(self) -> Self:
        return self

    async def receive(self) -> Any:
        found = await self._inner.receive()
        self._calls.note(getattr(found, "message", None))
        return found

    async def __anext__(self) -> Any:
        try:
            found = await anext(self._inner)
        except StopAsyncIteration:
            await self._calls.wait()
            raise
        self._calls.note(getattr(found, "message", None))
        return found


class _Writing(_Stream):
    """What goes out."""

    async def send(self, item: Any) -> None:
        await self._inner.send(item)
        if not hasattr(item.message, "method"):
            self._calls.end(getattr(item.message, "id", None))
