"""The model gateway of dispatch: it starts with the first program that needs it, and imports its HTTP client then.

::

    open ──> GatewayAccess, for the environment of one program
    begin, end ──> the turn that the program is in
    close_program ──> the program is gone
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import apsw

from shared.core.errors import ConfigInvalid
from shared.db.spending.usage import TurnName
from shared.gateway.ledger import Ledger, RunsWork
from shared.gateway.tokens import ModelTurn, Refusal, TokenBook
from shared.gateway.upstreams import GatewaySettings, routes, upstreams

if TYPE_CHECKING:
    from shared.gateway.proxy import ModelProxy
    from shared.gateway.server import ProgramServer

_LOGIN_PREFIX = "sk-ant-oat01-"  # claude takes a login of a plan only in this form


class ProgramAccess(NamedTuple):
    """What one program needs to reach models.

    Attributes:
        socket: the Unix socket of the gateway, for a sandbox.
        url: ``http://127.0.0.1:PORT`` for a program without one; None where it was not asked for.
        path: what a program's base URL has after the host: ``/anthropic``, ``/openai/v1`` or ``/local/v1``.
        token: in place of a key.
        is_plan: the token stands for the login of a plan, and not for a key.
    """

    socket: Path
    url: str | None
    path: str
    token: str
    is_plan: bool


class ModelGateway:
    """Lets programs use models without our keys, counts what they use, and holds the budgets.

    Args:
        folder: of the sockets.
        on_notice: called when an owner has been told something, so that it is sent.
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
        models: GatewaySettings | None = None,
    ) -> None:
        self._path = folder / "gateway.sock"
        self._reader = reader
        self._writer = writer
        self._timezone = timezone
        self._on_notice = on_notice
        self._models = models
        self._book = TokenBook()
        self._proxy: ModelProxy | None = None
        self._server: ProgramServer | None = None

    async def open(self, upstream: str, *, has_sandbox: bool) -> ProgramAccess:
        """Access for a new program, which uses *upstream* (``anthropic``, ``openai`` or ``local``).

        Raises:
            ConfigInvalid: there is no key for it, or a setting is wrong.
            OSError: the socket can't be made.
        """
        models = self._models = self._models or GatewaySettings.load()
        known = upstreams(models).get(upstream)
        if known is None:
            raise ConfigInvalid(f"no key for {upstream!r} is set: docs/agents.md names the variables")
        server = self._made(models)
        await server.start()
        url = None if has_sandbox else f"http://127.0.0.1:{await server.start_loopback()}"
        is_plan = known.paid_by == "plan"
        token = self._book.issue(_LOGIN_PREFIX if is_plan else "postroom-")
        path = "/anthropic" if upstream == "anthropic" else f"/{upstream}/v1"
        return ProgramAccess(self._path, url, path, token, is_plan)

    def begin(self, token: str, turn: TurnName, upstream: str, on_refusal: Callable[[Refusal], None]) -> None:
        """The program runs this turn from now on; *on_refusal* hears why a request of it got no whole answer."""
        self._book.begin(token, ModelTurn(turn, upstream, on_refusal))

    def end(self, token: str) -> None:
        """The turn is over: its requests are cut off, and the token is refused until the next one begins."""
        self._book.end(token)

    def close_program(self, token: str) -> None:
        """The program is gone."""
        self._book.revoke(token)

    async def close(self) -> None:
        """Stop serving."""
        if self._server is not None:
            await self._server.close()
        if self._proxy is not None:
            await self._proxy.close()

    def _made(self, models: GatewaySettings) -> "ProgramServer":
        if self._server is None:
            from shared.gateway.proxy import ModelProxy  # 15 MB that a dispatch without programs does not need
            from shared.gateway.server import ProgramServer

            known = upstreams(models)
            ledger = Ledger(self._reader, self._writer, models, self._timezone, self._on_notice)
            self._proxy = ModelProxy(self._book, routes(known), ledger)
            self._server = ProgramServer(self._path)
            for name in known:
                self._server.mount(name, self._proxy)
        return self._server
