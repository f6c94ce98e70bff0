"""Any API of OpenAI's or Anthropic's form as an agent, local models too: one run of pydantic-ai for each turn.

It runs in dispatch, starts no program, and has no tools but Postroom's. Its requests go through the gateway, so that
keys, usage and budgets are the same as for programs. The libraries are the extra ``api``; they are imported with the
first turn, in a thread, and only the dialect that is used.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping
from importlib import import_module
from typing import Any

from shared.agents.base import Failed, Init, Provider, ProviderEvent, Result, Turn
from shared.agents.providers.api import config as configs
from shared.agents.providers.api import history
from shared.agents.providers.api.config import INSTALL, ApiConfig
from shared.agents.providers.api.history import HistoryLost
from shared.agents.providers.api.steering import ApiSteering
from shared.core.errors import ConfigInvalid

MISSING = f"provider 'api' needs libraries that are not installed: run {INSTALL} in Postroom's folder"


class Api:
    """Runs turns with a model behind an API."""

    def __init__(self) -> None:
        self._steered: dict[str, ApiSteering] = {}  # by the turn's token

    def hears(self, turn: str) -> bool:
        """Whether the turn with this token runs here: what it is told goes into its next request."""
        return turn in self._steered and self._steered[turn].hears

    async def steer(self, turn: str, text: str) -> bool:
        """Tell the turn *text* too; whether a request took it."""
        return await self._steered[turn].tell(text) if self.hears(turn) else False

    def check(self, config: Mapping[str, Any]) -> None:
        """See ``ApiConfig`` for what a config may have. The libraries must be here."""
        configs.read(config)
        if not configs.is_installed():
            raise ConfigInvalid(MISSING)

    async def run(self, turn: Turn) -> AsyncGenerator[ProviderEvent, None]:
        """One run of the model. A history that is gone fails as ``session_lost``."""
        try:
            config = configs.read(turn.config)
            if turn.model is None:
                raise ConfigInvalid("it has no model: set the model that its API is to use")
            if turn.doors is None:
                raise ConfigInvalid("no gateway is there for it")
            access = await turn.doors.open(config.models, has_sandbox=True)
            before = await asyncio.to_thread(_before, turn)
            runs = await asyncio.to_thread(import_module, "shared.agents.providers.api.model_run")
        except ConfigInvalid as error:
            yield Failed(f"agent {turn.agent!r}: {error}", retryable=False, code="bad_config")
            return
        except HistoryLost as error:
            yield Failed(f"agent {turn.agent!r}: {error}", code="session_lost")
            return
        except ImportError:
            yield Failed(f"agent {turn.agent!r}: {MISSING}", retryable=False, code="not_installed")
            return
        steering = self._steered[turn.token] = ApiSteering()
        try:
            async with contextlib.aclosing(runs.run(config, turn, access, before, steering)) as events:
                async for event in events:
                    if isinstance(event, ProviderEvent):
                        yield event
                    else:
                        yield Init(await asyncio.to_thread(_keep, config, turn, event.messages))
                        yield Result(event.text)
        finally:
            self._steered.pop(turn.token, None)
            steering.close()


def _before(turn: Turn) -> bytes:
    return b"[]" if turn.continuation is None else history.load(turn.folder, turn.session, turn.continuation)


def _keep(config: ApiConfig, turn: Turn, messages: bytes) -> str:
    return history.save(turn.folder, turn.session, messages, most_bytes=config.history_bytes, before=turn.continuation)


def provider() -> Provider:
    """For the registry."""
    return Api()
