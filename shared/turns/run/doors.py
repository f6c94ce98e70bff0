"""The ways out of a turn, for its program: models and tools through the gateway of dispatch."""

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Self

from shared.agents import host_access
from shared.agents.access import ProgramAccess, Toolbox
from shared.agents.base import Used
from shared.core.errors import ConfigInvalid
from shared.core.time import clock
from shared.db.spending.usage import Tokens, TurnName
from shared.turns.gateway.model_gateway import ModelGateway
from shared.turns.gateway.tokens import ProgramTurn, Refusal


class TurnDoors:
    """Implements ``Doors`` for one turn; a context that closes them.

    Args:
        tools: what the MCP server shows to the turn's program.
        config: of the agent.

    Attributes:
        refusal: why the latest model request of the turn got no whole answer; None: it got one, or there was none.
    """

    def __init__(
        self,
        gateway: ModelGateway,
        name: TurnName,
        tools: Toolbox | None = None,
        config: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.refusal: Refusal | None = None
        self.tools = tools
        self._gateway = gateway
        self._turn = ProgramTurn(name, self._hear, tools, host_access.allowed(config))
        self._is_open = True
        self._brief: list[str] = []  # tokens that are gone with the turn
        self._lasting: list[str] = []
        self._end: asyncio.Timeout | None = None

    @property
    def name(self) -> TurnName:
        """The turn."""
        return self._turn.name

    async def open(self, upstream: str | None, *, has_sandbox: bool, lives_on: bool = False) -> ProgramAccess:
        """See ``Doors``."""
        access = await self._gateway.open(self._turn.name, upstream, has_sandbox=has_sandbox)
        if not self._is_open:
            self.close(access)
            raise ConfigInvalid("the turn is over: no program may be started for it")
        (self._lasting if lives_on else self._brief).append(access.token)
        self._gateway.begin(access.token, self._turn)
        return access

    def enter(self, access: ProgramAccess) -> None:
        """See ``Doors``."""
        self._gateway.begin(access.token, self._turn)
        self._lasting.append(access.token)

    def close(self, access: ProgramAccess) -> None:
        """See ``Doors``."""
        self._gateway.close_program(access.token)

    async def record(self, used: Used) -> None:
        """Write the tokens that a program says it took from a model of its own."""
        tokens = Tokens(used.input, used.output, used.cache_read, used.cache_write)
        await self._gateway.record(self._turn.name, used.model, tokens, now_ms=clock.now_ms())

    def ends_with(self, timeout: asyncio.Timeout) -> None:
        """Let *timeout* run out at once when a refusal makes it senseless to go on: it ends the provider's run."""
        self._end = timeout

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_open = False
        for token in self._lasting:
            self._gateway.end(token)
        for token in self._brief:
            self._gateway.close_program(token)

    def _hear(self, refusal: Refusal | None) -> None:
        if self.is_hopeless or not self._is_open:
            return  # whatever other requests say: this one ends the turn
        self.refusal = refusal
        if self.is_hopeless and self._end is not None and not self._end.expired():
            self._end.reschedule(asyncio.get_running_loop().time())

    @property
    def is_hopeless(self) -> bool:
        """Whether every further request of the turn would be refused too."""
        return self.refusal is not None and self.refusal.is_final
