"""A turn of given messages, and what a provider does with it."""

import asyncio
import contextlib
from pathlib import Path

from shared.agents import registry
from shared.agents.base import Turn, TurnMessage

AT = 1_800_000_000_000


def turn(*texts, attempt=1, config=None, continuation=None, folder=Path(), prompt="the prompt"):
    messages = tuple(
        TurnMessage(f"m{number}", "chat", "Ana", text.removeprefix("~"), AT, None, text.startswith("~"))
        for number, text in enumerate(texts or ("hello",))
    )
    return Turn(
        agent="helper",
        model=None,
        instructions="be kind",
        config=config or {},
        folder=folder,
        session="session_1",
        continuation=continuation,
        prompt=prompt,
        messages=messages,
        attempt=attempt,
    )


def run(name, what, timeout_s=60):
    """The events of the provider for the turn."""

    async def collect():
        async with asyncio.timeout(timeout_s), contextlib.aclosing(registry.get(name).run(what)) as events:
            return [event async for event in events]

    return asyncio.run(collect())
