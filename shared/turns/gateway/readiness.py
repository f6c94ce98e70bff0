"""Whether a provider can work on this machine now: its program is installed, and its models have a key or a login.

A login is judged by the day on which it ends, because the programs call one that has ended "logged in".
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

from shared.agents import registry
from shared.agents.programs.installed import Installed
from shared.turns.gateway.upstreams import GatewaySettings

NOTHING = "echo"


@runtime_checkable
class UsesModels(Protocol):
    """A provider whose program asks one host of models."""

    upstream: str

    def installed(self, config: Mapping[str, Any]) -> Installed:
        """Whether its program is here; it may start the program, to ask for its version."""


class Readiness(NamedTuple):
    """One provider on this machine.

    Attributes:
        program: None where it starts no program of its own.
        why_not: why it can't work, and what to do; None where it can.
    """

    provider: str
    program: Installed | None = None
    why_not: str | None = None


def look(provider: str, models: GatewaySettings, *, now_ms: int, config: Mapping[str, Any] | None = None) -> Readiness:
    """Whether *provider* can work. It may start a program for a tenth of a second: not in the event loop."""
    found = registry.get(provider)
    if not isinstance(found, UsesModels):
        return Readiness(provider)
    program = found.installed(config or {})
    upstream = upstream_of(provider, config or {}) or found.upstream
    why_not = program.why_not or models.why_no_login(upstream, now_ms=now_ms)
    return Readiness(provider, program, why_not)


def upstream_of(provider: str, config: Mapping[str, Any]) -> str | None:
    """Whose models its agent asks: as its config says, else as the provider does; None: nobody's."""
    found = registry.get(provider)
    usual = found.upstream if isinstance(found, UsesModels) else None
    named = config.get("models", usual)
    return named if isinstance(named, str) else None


def choose(models: GatewaySettings, *, now_ms: int) -> Readiness:
    """What an agent with ``auto`` uses: the first that can work; else ``echo``, with the reasons of all."""
    reasons = []
    for provider in filter(registry.NAMES.__contains__, registry.AUTO_ORDER):
        found = look(provider, models, now_ms=now_ms)
        if found.why_not is None:
            return found
        reasons.append(f"{provider}: {found.why_not}")
    return Readiness(NOTHING, None, "; ".join(reasons))
