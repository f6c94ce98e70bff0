"""The gateway of dispatch for agents' programs: models, and the tools of their turns, behind one server.

It starts with the first program that needs it, and imports its HTTP server and client then::

    open ──> ProgramAccess, for the environment of one program
    begin, end ──> the turn that the program is in
    close_program ──> the program is gone
"""

import asyncio
import hashlib
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import apsw
from starlette.types import Receive, Scope, Send

from shared.agents.access import ProgramAccess, Toolbox
from shared.core.errors import ConfigInvalid
from shared.core.time import clock
from shared.db.spending.usage import Tokens, TurnName
from shared.turns.gateway import headers
from shared.turns.gateway.ledger import Ledger, RunsWork, unpriced_under, used_up_by
from shared.turns.gateway.tokens import ProgramTurn, Refusal, TokenBook
from shared.turns.gateway.upstreams import GatewaySettings, ModelUpstream, routes, upstreams

if TYPE_CHECKING:
    from shared.turns.gateway.proxy import ModelProxy
    from shared.turns.gateway.server import ProgramServer
    from shared.turns.gateway.sound_models import SoundModels

_LOOPBACK = "loopback"  # the door of all programs without a sandbox
TOOLS = "mcp"  # the first part of the path of tools
_LOGIN_PREFIX = "sk-ant-oat01-"  # claude takes a login of a plan only in this form


class ToolsApp(Protocol):
    """The ASGI application that serves tools. It answers a token without tools with a 401."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

    def begin(self) -> None:
        """A program is about to start."""

    async def close(self) -> None:
        """Every program is gone."""


class ModelGateway:
    """Lets programs use models without our keys, counts what they use, and holds the budgets.

    Args:
        folder: of the sockets.
        on_notice: called when an owner has been told something, so that it is sent.
        tools: makes the application for ``/mcp``, when the first program comes; it is given a function from a program's
            token to the tools of its turn (None: no turn runs, or the token is unknown). None: no tools are served.
        models: None: from the environment, at the first use.
    """

    def __init__(
        self,
        folder: Path,
        reader: apsw.Connection,
        writer: RunsWork,
        *,
        timezone: str,
        on_notice: Callable[[], object],
        tools: Callable[[Callable[[str], Toolbox | None]], ToolsApp] | None = None,
        models: GatewaySettings | None = None,
    ) -> None:
        self._folder = folder / "gateway"
        self._reader = reader
        self._writer = writer
        self._timezone = timezone
        self._on_notice = on_notice
        self._make_tools = tools
        self._tools: ToolsApp | None = None
        self._models = models
        self._book = TokenBook()
        self._proxy: ModelProxy | None = None
        self._kept_ledger: Ledger | None = None
        self._server: ProgramServer | None = None
        self._sound: SoundModels | None = None

    async def open(self, name: TurnName, upstream: str | None, *, has_sandbox: bool) -> ProgramAccess:
        """Access for a new program of this agent and session, between turns.

        Args:
            upstream: the models that it may use: ``anthropic``, ``openai`` or ``local``; None: tools only.

        Raises:
            ConfigInvalid: there is no key for these models, or a setting is wrong.
            OSError: the socket can't be made.
        """
        models = self._models = self._models or GatewaySettings.load()
        known = upstreams(models)
        if upstream is not None and (why := models.why_no_login(upstream, now_ms=clock.now_ms())):
            raise ConfigInvalid(why)
        server = self._ensure_server(models)
        door, url = _door(name), None
        if has_sandbox:
            await server.open(door)
        else:
            door, url = _LOOPBACK, f"http://127.0.0.1:{await server.start_loopback(_LOOPBACK)}"
        is_plan = upstream is not None and known[upstream].paid_by == "plan"
        token = self._book.issue(name, upstream, _LOGIN_PREFIX if is_plan else "postroom-", door=door)
        return ProgramAccess(server.path(door), url, _models_path(upstream), f"/{TOOLS}", token, is_plan)

    async def serve(self, listening: socket.socket, path: Path) -> asyncio.Server:
        """Serve the programs of one session on a socket that listens inside its sandbox; the caller closes the server.

        Args:
            path: of the session's Unix socket: its door.
        """
        models = self._models = self._models or GatewaySettings.load()
        return await self._ensure_server(models).serve(listening, path.name)

    async def stop(self, agent: str, *, now_ms: int) -> Refusal | None:
        """Why no turn of the agent may begin: a budget that it spends from is used up, or can't hold. None: it may."""
        if not (used_up_by(self._reader, agent, self._timezone, now_ms=now_ms) or unpriced_under(self._reader, agent)):
            return None
        models = self._models = self._models or GatewaySettings.load()
        return await self._ledger(models).stop(agent, now_ms=now_ms)

    async def record(self, name: TurnName, model: str, tokens: Tokens, *, now_ms: int) -> None:
        """Count what a program took from a model without this gateway, as it says itself."""
        models = self._models = self._models or GatewaySettings.load()
        await self._ledger(models).record(name, model, "key", tokens, now_ms=now_ms)

    def sound(self) -> "SoundModels":
        """The models that make text of sound, or sound of text.

        Raises:
            ConfigInvalid: a setting is wrong.
        """
        if self._sound is None:
            from shared.turns.gateway.sound_models import SoundModels  # most dispatches hear and say nothing

            models = self._models = self._models or GatewaySettings.load()
            self._sound = SoundModels(models, self._ledger(models))
        return self._sound

    def begin(self, token: str, turn: ProgramTurn) -> None:
        """The program runs this turn from now on.

        Raises:
            KeyError: the program is closed, or belongs to another session.
        """
        self._book.begin(token, turn)

    def end(self, token: str) -> None:
        """The turn is over: its requests are cut off, and the token is refused until the next one begins."""
        self._book.end(token)

    def close_program(self, token: str) -> None:
        """The program is gone."""
        door = self._book.door(token)
        self._book.revoke(token)
        if door is not None and self._server is not None and not self._book.is_used(door):
            self._server.shut(door)

    async def close(self) -> None:
        """Stop serving."""
        if self._server is not None:
            await self._server.close()
        if self._proxy is not None:
            await self._proxy.close()
        if self._sound is not None:
            await self._sound.close()
        if self._tools is not None:
            await self._tools.close()

    def _admits(self, door: str, scope: Scope) -> bool:
        """Whether each known token belongs to a program behind this door; unknown tokens are refused later."""
        return all(self._book.door(token) in (None, door) for token in headers.tokens(scope["headers"]))

    def _ensure_server(self, models: GatewaySettings) -> "ProgramServer":
        if self._server is None:
            from shared.turns.gateway.server import (
                ProgramServer,  # with the proxy 15 MB that most dispatches do not need
            )

            self._server = ProgramServer(self._folder, self._admits)
            self._mount_models(self._server, models, upstreams(models))
            self._mount_tools(self._server)
        return self._server

    def _mount_models(self, server: "ProgramServer", models: GatewaySettings, known: dict[str, ModelUpstream]) -> None:
        from shared.turns.gateway.proxy import ModelProxy

        self._proxy = ModelProxy(self._book, routes(known), self._ledger(models))
        for name in known:
            server.mount(name, self._proxy)

    def _ledger(self, models: GatewaySettings) -> Ledger:
        if self._kept_ledger is None:
            self._kept_ledger = Ledger(self._reader, self._writer, models, self._timezone, self._on_notice)
        return self._kept_ledger

    def _mount_tools(self, server: "ProgramServer") -> None:
        if self._make_tools is not None:
            self._tools = self._make_tools(self._book.tools)
            self._tools.begin()
            server.mount(TOOLS, self._tools)


def _door(name: TurnName) -> str:
    """The name of the session's door: short, because the path of a Unix socket is."""
    return hashlib.sha256(f"{name.agent}\0{name.session}".encode()).hexdigest()[:12]


def _models_path(upstream: str | None) -> str:
    if upstream is None:
        return ""
    return "/anthropic" if upstream == "anthropic" else f"/{upstream}/v1"
