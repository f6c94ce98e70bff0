"""The provider of an agent with ``auto``: chosen once, on this machine, and then kept until an operator changes it.

While nothing can work, ``echo`` answers and says so, and nothing is kept: the next turn looks again.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import apsw

from shared.agents import registry
from shared.core import logs
from shared.core.time import clock
from shared.db.queue import events
from shared.db.queue.claims import Claim
from shared.db.roster import agents
from shared.db.roster.agents import Agent
from shared.turns.gateway import readiness
from shared.turns.gateway.ledger import RunsWork
from shared.turns.gateway.readiness import Readiness
from shared.turns.gateway.upstreams import GatewaySettings

log = logs.get()


def resolved(agent: Agent) -> Agent:
    """The agent with the provider that runs its turns."""
    if agent.provider != registry.AUTO or agent.chosen_provider is None:
        return agent
    return replace(agent, provider=agent.chosen_provider)


async def agent_of(
    reader: apsw.Connection,
    writer: RunsWork,
    claim: Claim,
    look: Callable[[], Readiness] | None = None,
) -> Agent | None:
    """The agent of *claim* with the provider that runs its turns, which is chosen now where none is; None: it is gone.

    Args:
        look: what this machine has; None: look there.
    """
    agent = agents.get(reader, claim.agent)
    if agent is not None and agent.provider == registry.AUTO and agent.chosen_provider is None:
        await _choose(writer, claim, agent, look)
        agent = agents.get(reader, claim.agent)
    return None if agent is None else resolved(agent)


async def _choose(writer: RunsWork, claim: Claim, agent: Agent, look: Callable[[], Readiness] | None) -> None:
    now_ms = clock.now_ms()
    found = await asyncio.to_thread(look or partial(_look, now_ms))
    if found.provider == readiness.NOTHING:
        log.warning("agent.nothing_to_choose", agent=agent.id, reason=found.why_not)
        return
    if await writer.run(partial(_keep, agent.id, claim, found.provider, now_ms)):
        log.info("agent.provider_chosen", agent=agent.id, provider=found.provider)


def _look(now_ms: int) -> Readiness:
    return readiness.choose(GatewaySettings.load(), now_ms=now_ms)


def _keep(agent: str, claim: Claim, provider: str, now_ms: int, conn: apsw.Connection) -> bool:
    """Keep the choice, and tell it in the story of the message that it was made for."""
    if not agents.choose_provider(conn, agent, provider, now_ms=now_ms):
        return False
    message_id = claim.asked[0].message_id
    data: events.EventData = {"provider": provider}
    events.append(conn, "provider_chosen", now_ms=now_ms, message_id=message_id, agent=agent, data=data)
    return True
