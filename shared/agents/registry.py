"""Providers by name. The name comes from an agent's row, and can only select from this list."""

import asyncio
import sys
from functools import cache
from importlib import import_module
from typing import cast

from shared.agents.base import ListeningProvider, Provider
from shared.agents.providers.stand_in import StandIn
from shared.core.errors import UnknownName

_MODULES = {
    "api": "shared.agents.providers.api.provider",
    "claude": "shared.agents.providers.claude.provider",
    "codex": "shared.agents.providers.codex.provider",
    "command": "shared.agents.providers.command",
    "echo": "shared.agents.providers.echo",
    "opencode": "shared.agents.providers.opencode.provider",
}
NAMES = tuple(_MODULES)
OTHER_NAMES = {"anthropic": "claude", "openai": "codex"}  # TinyAGI's, whose agents run the same programs
AUTO = "auto"  # dispatch chooses one that is installed and has a login; see ``shared/turns/gateway/readiness.py``
AUTO_ORDER = ("claude", "codex")  # ``api`` and ``opencode`` want a model's name, so nothing can choose them
PROGRAMS = (*OTHER_NAMES, AUTO, "claude", "codex", "command", "opencode")  # start a program on this machine


@cache
def get(name: str) -> Provider:
    """The provider called *name*, imported on first use.

    Raises:
        UnknownName: there is no such provider.
    """
    name = OTHER_NAMES.get(name, name)
    if name == AUTO:
        return StandIn(get("echo"))
    if name not in _MODULES:
        raise UnknownName("provider", name, _MODULES)
    provider: Provider = import_module(_MODULES[name]).provider()
    return provider


async def load(name: str) -> None:
    """Import the provider called *name*; the event loop goes on meanwhile. An unknown one is none of its business."""
    module = _MODULES.get(OTHER_NAMES.get(name, name))
    if module is not None and module not in sys.modules:
        await asyncio.to_thread(import_module, module)


def listening_to(turn: str) -> ListeningProvider | None:
    """The provider whose turn with this token can be told something now, or None."""
    loaded = (get(name) for name, module in _MODULES.items() if module in sys.modules)
    listening = (cast(ListeningProvider, each) for each in loaded if _listens(type(each)))
    return next((each for each in listening if each.hears(turn)), None)


@cache
def _listens(kind: type) -> bool:
    """Whether it can be told something. Kept, because a look at a protocol takes 50 microseconds."""
    return issubclass(kind, ListeningProvider)
