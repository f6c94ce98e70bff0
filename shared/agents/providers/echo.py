"""The echo agent, without an account or a network. It answers, and its commands imitate what real agents do.

Commands, at the start of a message, in a group behind the name of the bot::

    !say one | two | three    several answers
    !slow 3 text              answers after 3 seconds
    !fail                     fails until the message is dead
    !fail 2 text              fails twice, then answers
    !reject                   fails in a way that no retry helps
    !silent                   says nothing, which is a failure too
    !count                    the number of turns in this session
    !may anything             asks an approver whether it may do anything, and waits
    !listen 30                waits until you edit or delete this message, and says what it was told
    !help                     this list

It also has the commands of ``echo_tools``, which call Postroom's tools.
"""

import asyncio
import textwrap
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from shared.agents.access import PermissionAsked
from shared.agents.base import Failed, Init, Provider, ProviderEvent, Result, Text, Turn, TurnMessage
from shared.agents.providers import echo_tools
from shared.core.errors import ConfigInvalid

_WHO = "I am the built-in echo agent; no AI model is configured. I repeat what you say, and I know:"


def _listed(docstring: str | None) -> str:
    """The commands of a module's docstring: its block of literal text."""
    block = (docstring or "").split("::\n\n", 1)[1]
    lines = block.split("\n")
    end = next((at for at, line in enumerate(lines) if line and not line.startswith(" ")), len(lines))
    return textwrap.dedent("\n".join(lines[:end])).strip("\n")


_HELP = f"{_listed(__doc__)}\n{_listed(echo_tools.__doc__)}"
_LONGEST_WAIT_S = 600.0


class Echo:
    """The default provider."""

    def __init__(self) -> None:
        self._listening: dict[str, asyncio.Queue[str]] = {}

    def check(self, config: Mapping[str, Any]) -> None:
        """``{"tools": "all"}`` lets its commands reach beyond their conversation. Other entries are not read."""
        if config.get("tools", "here") not in ("here", "all"):
            raise ConfigInvalid('config for provider \'echo\' is wrong: tools: write "all" or "here"')

    def hears(self, turn: str) -> bool:
        """While it obeys ``!listen``."""
        return turn in self._listening

    async def steer(self, turn: str, text: str) -> bool:
        """See ``ListeningProvider``."""
        listening = self._listening.get(turn)
        if listening is not None:
            listening.put_nowait(text)
        return listening is not None

    async def run(self, turn: Turn) -> AsyncGenerator[ProviderEvent, None]:
        """Answer each message that asks, in order. The continuation counts the turns of the session."""
        before = turn.continuation or ""  # may come from another provider that the agent had before
        turns = int(before) + 1 if before.isdecimal() else 1
        yield Init(str(turns))
        for number, message in enumerate(turn.messages, 1):
            if message.is_context:
                continue
            command, _, rest = message.text.strip().partition(" ")
            if command in echo_tools.NAMES:
                said = await echo_tools.obey(command, rest.strip(), message, turn, number)
                yield Text(said, message.message_id)
                continue
            if command == "!may":
                yield Text(await _ask(turn, rest.strip(), number), message.message_id)
                continue
            if command == "!listen":
                yield Text(await self._listen(turn.token, rest), message.message_id)
                continue
            async for event in _answer(message, attempt=turn.attempt, turns=turns):
                yield event
                if isinstance(event, Failed):
                    return
        yield Result()

    async def _listen(self, turn: str, rest: str) -> str:
        seconds, _ = _number(rest.strip(), default=30.0)
        heard = self._listening[turn] = asyncio.Queue()
        try:
            async with asyncio.timeout(min(seconds, _LONGEST_WAIT_S)):
                return f"I heard: {await heard.get()}"
        except TimeoutError:
            return "I heard nothing."
        finally:
            del self._listening[turn]


async def _ask(turn: Turn, what: str, number: int) -> str:
    given = {"what": what}
    if turn.permissions is None:
        return "Nobody can be asked here."
    answer = await turn.permissions.ask(PermissionAsked("may", given, f"echo-{number}", given))
    return f"I may: {what}" if answer.is_allowed else answer.reason


async def _answer(message: TurnMessage, *, attempt: int, turns: int) -> AsyncGenerator[ProviderEvent, None]:
    command, _, rest = message.text.strip().partition(" ")
    rest = rest.strip()
    if command == "!say":
        for text in filter(None, (part.strip() for part in rest.split("|"))):
            yield Text(text, message.message_id)
    elif command == "!slow":
        seconds, text = _number(rest, default=3.0)
        await asyncio.sleep(min(seconds, _LONGEST_WAIT_S))
        yield Text(text or f"That took {seconds:g} s.", message.message_id)
    elif command == "!fail":
        times, text = _number(rest, default=float("inf"))
        if attempt <= times:
            yield Failed(f"failed on request (attempt {attempt})")
        else:
            yield Text(text or f"Attempt {attempt} worked.", message.message_id)
    elif command == "!reject":
        yield Failed("rejected on request", retryable=False)
    elif command == "!count":
        yield Text(f"This is turn {turns} of our session.", message.message_id)
    elif command == "!help":
        yield Text(f"{_WHO}\n```\n{_HELP}\n```", message.message_id)
    elif command != "!silent":
        between = "\n" if "```" in message.text else " "  # a code fence must begin a line
        said = f"You said:{between}{message.text}" if message.text or not message.files else ""
        yield Text("\n".join(filter(None, (said, _files(message)))), message.message_id)


def _files(message: TurnMessage) -> str:
    """What came with the message, and why a file or its words can't be had."""
    named = [
        " ".join(filter(None, (each.kind, each.name, f"({why})" if (why := each.why_not or each.why_no_words) else "")))
        for each in message.files
    ]
    return f"You sent: {', '.join(named)}" if named else ""


def _number(text: str, *, default: float) -> tuple[float, str]:
    """The leading number and the rest."""
    first, _, rest = text.partition(" ")
    try:
        return max(0.0, float(first)), rest.strip()
    except ValueError:
        return default, text


def provider() -> Provider:
    """For the registry."""
    return Echo()
