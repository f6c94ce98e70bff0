"""Choices while a person types a command: the agents that this person may ask in this chat."""

import apsw

from shared.channels.base import Choice, Event
from shared.conversation.access import people, rules
from shared.db.roster import agents, wirings

AGENT = "agent"  # the option of a command


def choices(conn: apsw.Connection, channel: str, event: Event) -> list[Choice]:
    """What fits the half-typed value, in the order of the chat's wirings; empty where nothing can be suggested."""
    if event.context.get("focused") != AGENT or event.platform_id is None:
        return []
    found = wirings.find_chat(conn, channel, event.platform_id)
    if found is None:
        return []
    sender = people.standing(conn, channel, event.sender_id)
    has_id = event.sender_id is not None
    typed = str(event.context.get("value") or "").strip().removeprefix("@").casefold()
    names = {each.id: each.name for each in agents.every(conn)}
    may_ask = (
        each.agent
        for each in found.wirings
        if rules.admits(found.chat.sender_policy, each.sender_scope, sender, each.agent, has_id=has_id)[0] == "allow"
    )
    shown = (Choice(_label(names[agent], agent), agent) for agent in may_ask if agent in names)
    return [each for each in shown if typed in each.label.casefold()]


def _label(name: str, agent: str) -> str:
    return name if name.casefold() == agent.casefold() else f"{name} (@{agent})"
