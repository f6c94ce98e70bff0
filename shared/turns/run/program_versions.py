"""Which versions of their programs the agents have: the log says so when dispatch starts, before a turn needs one."""

import asyncio
from collections.abc import Sequence

from shared.agents import registry
from shared.agents.programs import installed
from shared.core import logs
from shared.core.errors import ConfigInvalid
from shared.db.roster.agents import Agent
from shared.turns.gateway.readiness import UsesModels
from shared.turns.run import auto_provider

log = logs.get()


async def tell(agents: Sequence[Agent]) -> None:
    """Log each program once: "tested with" which version; or that it is missing. In threads: it blocks nothing."""
    for agent in map(auto_provider.resolved, agents):
        if agent.provider in registry.PROGRAMS:
            await asyncio.to_thread(_tell, agent)


def _tell(agent: Agent) -> None:
    provider = registry.get(agent.provider)
    if not isinstance(provider, UsesModels):
        return
    try:
        found = provider.installed(agent.config)
    except ConfigInvalid as error:
        log.warning("agent.config_invalid", agent=agent.id, reason=str(error))
        return
    if found.why_not is None:
        installed.tell(found)
    else:
        log.warning("agent.program_missing", agent=agent.id, reason=found.why_not)
