"""Answers in the place of a provider that this release does not have: ``echo``, and a sentence that says so."""

import contextlib
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from typing import Any

from shared.agents.base import Provider, ProviderEvent, Text, Turn


def notice(name: str) -> str:
    """The sentence for people."""
    return f"This release of Postroom has no provider {name!r} yet: 'echo' answers in its place."


class StandIn:
    """The provider *name*, played by *actor*."""

    def __init__(self, name: str, actor: Provider) -> None:
        self._name = name
        self._actor = actor

    def check(self, config: Mapping[str, Any]) -> None:
        """Any configuration is for the provider that is to come."""

    async def run(self, turn: Turn) -> AsyncGenerator[ProviderEvent, None]:
        """What the actor does; each answer begins with the notice."""
        async with contextlib.aclosing(self._actor.run(turn)) as provider_events:
            async for event in provider_events:
                if isinstance(event, Text):
                    event = replace(event, text=f"({notice(self._name)})\n\n{event.text}")
                yield event
