"""An agent that speaks by tools while its turn runs, and dispatch around it, to be killed at any instant.

``python speaker.py JOURNAL``: for each line of its standard input it forks a dispatch, and writes the process id. What
the agent was told to be sent stands in the journal, in one write each.
"""

import asyncio
import os
import random
import sys
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from functions.dispatch import Dispatch
from shared.agents import registry
from shared.agents.base import Failed, Provider, ProviderEvent, Result, Text, Turn
from shared.core.settings import Settings

PARTS = 3


class Speaker:
    """Says three parts of each message, in a random rhythm, and then ends in a random way."""

    def check(self, config: Mapping[str, Any]) -> None:
        """There is nothing to configure."""

    async def run(self, turn: Turn) -> AsyncGenerator[ProviderEvent, None]:
        """Say what was not said before, as the note of a turn that goes on tells."""
        assert turn.tools is not None
        said = "\n".join(each.text for each in turn.messages if each.is_context)
        for message in (each for each in turn.messages if not each.is_context):
            for part in range(PARTS):
                await asyncio.sleep(random.expovariate(100))
                text = f"{message.text} part {part}"
                if text in said:
                    continue
                for _ in range(random.choice((1, 1, 2))):  # a client may repeat a call
                    answer = await turn.tools.call("send_message", {"text": text}, call_id=text)
                    if not answer.is_error:
                        _note(text)
                if random.random() < 0.1:
                    yield Failed("planned")
                    return
            if random.random() < 0.5:
                yield Text(f"{message.text} final", message.message_id)
        await asyncio.sleep(random.expovariate(100))
        yield Result()


def _note(text: str) -> None:
    os.write(journal, f"{text}\n".encode())


def provider() -> Provider:
    """For the registry."""
    return Speaker()


async def _dispatch() -> None:
    Dispatch(Settings.load()).worker.begin()
    await asyncio.sleep(600)


def _fork() -> None:
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the log would stand between the process ids
        random.seed()
        asyncio.run(_dispatch())
        os._exit(0)
    print(child, flush=True)
    os.waitpid(child, 0)


if __name__ == "__main__":
    journal = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    sys.modules["tests.e2e.crash.speaker"] = sys.modules["__main__"]
    registry._MODULES["speaker"] = "tests.e2e.crash.speaker"
    for _ in sys.stdin:
        _fork()
