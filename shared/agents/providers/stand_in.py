"""Answers while ``auto`` has nothing to choose: ``echo``, and a sentence that says so."""

import contextlib
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from msgspec.structs import replace

from shared.agents.base import Provider, ProviderEvent, Text, Turn

_NOTICE = "No agent's program can work on this machine yet (`emulator doctor` says why): 'echo' answers for now."


class StandIn:
    """A provider that is not here, played by *actor*."""

    def __init__(self, actor: Provider) -> None:
        self._actor = actor

    def check(self, config: Mapping[str, Any]) -> None:
        """Any configuration is for the provider that is chosen."""

    async def run(self, turn: Turn) -> AsyncGenerator[ProviderEvent, None]:
        """What the actor does; each answer begins with the notice."""
        async with contextlib.aclosing(self._actor.run(turn)) as provider_events:
            async for event in provider_events:
                if isinstance(event, Text):
                    event = replace(event, text=f"({_NOTICE})\n\n{event.text}")
                yield event
