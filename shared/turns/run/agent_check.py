"""Whether a paused agent could work again: its program is here, and its models take our login. It costs nothing."""

import asyncio
from collections.abc import Mapping

from shared.agents import registry
from shared.core.errors import ConfigInvalid
from shared.db.roster.agent_pauses import PauseCode
from shared.db.roster.agents import Agent
from shared.turns.gateway import login_check, readiness
from shared.turns.gateway.login_check import LoginState
from shared.turns.gateway.readiness import UsesModels
from shared.turns.gateway.upstreams import GatewaySettings, upstreams
from shared.turns.run import auto_provider

_MEANS: Mapping[LoginState, str] = {
    "refused": "the host of its models still refuses our key or login",
    "unreachable": "the host of its models can't be reached",
}


def can_be_asked(agent: Agent) -> bool:
    """Whether there is anything to ask: a program that Postroom knows, or a host of models."""
    found = auto_provider.resolved(agent)
    is_program = isinstance(registry.get(found.provider), UsesModels)
    return is_program or readiness.upstream_of(found.provider, found.config) is not None


async def why_not(agent: Agent, code: PauseCode, models: GatewaySettings, *, now_ms: int) -> str | None:
    """Why no turn of the agent, paused for *code*, can succeed now; None: one can, or only a turn can tell."""
    try:
        why = await asyncio.to_thread(_no_program, agent)
    except ConfigInvalid as error:
        return str(error)
    if why is not None or code not in ("auth", "quota"):
        return why
    return await _no_login(agent, models, now_ms)


def _no_program(agent: Agent) -> str | None:
    found = auto_provider.resolved(agent)
    provider = registry.get(found.provider)
    return provider.installed(found.config).why_not if isinstance(provider, UsesModels) else None


async def _no_login(agent: Agent, models: GatewaySettings, now_ms: int) -> str | None:
    found = auto_provider.resolved(agent)
    upstream = readiness.upstream_of(found.provider, found.config)
    if upstream is None:
        return None
    why = models.why_no_login(upstream, now_ms=now_ms)
    if why is not None:
        return why
    return _MEANS.get(await login_check.ask(upstreams(models)[upstream]))
