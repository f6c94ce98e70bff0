"""What people and operators read about an agent that is paused: our own words, never a program's."""

from datetime import datetime
from zoneinfo import ZoneInfo

from shared.conversation.access import cards
from shared.db.roster.agent_pauses import AgentPause
from shared.db.roster.agents import Agent

_WAITS = "Your message waits, and is answered"


def for_people(pause: AgentPause, agent: Agent, *, now_ms: int) -> str:
    """One sentence for a person who writes meanwhile; times in the agent's zone."""
    if pause.until is not None:
        return f"The agent can't answer until {_instant(pause.until, agent.timezone, now_ms=now_ms)}. {_WAITS} then."
    if pause.paused_by == "operator":
        return f"The operator has paused the agent. {_WAITS} when it continues."
    return f"The agent can't answer at the moment, and its operator knows. {_WAITS} when it can."


def for_operators(pause: AgentPause, agent: Agent) -> str:
    """What an owner or admin reads, once for each pause; Markdown."""
    name = cards.escape(cards.line(agent.name, cards.LONGEST_NAME))
    ends = "It continues by itself"
    if pause.until is not None:
        ends += f" at {_instant(pause.until, agent.timezone, now_ms=None)}"
    elif pause.check_at is not None:
        ends += " once it can work"
    return (
        f"Agent {name} is paused, and its messages wait: {cards.escape(cards.line(pause.reason))}. {ends}. When it is"
        f" mended, type `emulator agents resume {agent.id}`."
    )


def _instant(at_ms: int, timezone: str, *, now_ms: int | None) -> str:
    zone = ZoneInfo(timezone)
    at = datetime.fromtimestamp(at_ms / 1000, zone)
    is_today = now_ms is not None and datetime.fromtimestamp(now_ms / 1000, zone).date() == at.date()
    return f"{at:%H:%M} ({timezone})" if is_today else f"{at:%Y-%m-%d %H:%M} ({timezone})"
