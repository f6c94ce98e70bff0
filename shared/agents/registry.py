"""Providers by name. The name comes from an agent's row, and can only select from this list."""

from functools import cache
from importlib import import_module

from shared.agents.base import Provider
from shared.agents.providers.stand_in import StandIn
from shared.core.errors import UnknownName

_MODULES = {
    "api": "shared.agents.providers.api.provider",
    "claude": "shared.agents.providers.claude.provider",
    "codex": "shared.agents.providers.codex.provider",
    "command": "shared.agents.providers.command",
    "echo": "shared.agents.providers.echo",
    "openai": "shared.agents.providers.codex.provider",
    "opencode": "shared.agents.providers.opencode.provider",
}
NAMES = tuple(_MODULES)
PROGRAMS = ("claude", "codex", "command", "openai", "opencode")  # start a program on this machine
STAND_INS = ("anthropic",)  # TinyAGI's office offers it, and openai for codex; echo plays them until they are here


@cache
def get(name: str) -> Provider:
    """The provider called *name*, imported on first use.

    Raises:
        UnknownName: there is no such provider.
    """
    if name in STAND_INS:
        return StandIn(name, get("echo"))
    if name not in _MODULES:
        raise UnknownName("provider", name, _MODULES)
    provider: Provider = import_module(_MODULES[name]).provider()
    return provider
