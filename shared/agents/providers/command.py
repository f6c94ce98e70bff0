"""Any program as an agent: one JSON object on its standard input, JSON lines on its standard output.

The agent's ``config`` is ``{"command": ["python3", "agent.py"], "env": {"NAME": "value"}}``. In::

    {"agent": …, "session": …, "continuation": … or null, "instructions": …, "model": …, "attempt": 1,
     "prompt": "<context …/>\\n<message …>…</message>",
     "messages": [{"id": …, "kind": …, "sender": …, "text": …, "time": ms, "is_context": false}]}

Out, one object a line. Lines that are no JSON objects are text; all of them together are one answer::

    {"type": "init", "continuation": "…"}      {"type": "text", "text": "…"}       {"type": "result", "text": "…"}
    {"type": "progress", "note": "…"}          {"type": "error", "message": "…", "retryable": true, "wait_ms": 1000}

An error with ``"code": "session_lost"`` says that the program does not know the continuation: the turn runs once more
without one, and its prompt has what was said before.

Text from people goes over standard input only, never into an option. Where this host allows it, the program is on a
leash (see ``shared/agents/programs/containment.py``): it sees its own folder, read-only parts of the system, files
that its command names by their whole path, the virtual environment of its interpreter, and the paths of ``"readable":
["/a/folder"]``; it has no network. Everything that it started is killed when the turn ends, however it ends. The
program's environment holds none of our settings, and its HOME is its folder. ``env`` is stored in the agent's row, and
so in the replica and the API: do not put a secret there.
"""

import asyncio
import contextlib
import json
import math
import os
import shutil
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shared.agents import leftover_processes
from shared.agents.base import Failed, Init, Progress, Provider, ProviderEvent, Result, Text, Turn
from shared.agents.programs import containment
from shared.agents.programs.containment import ProgramCommand
from shared.agents.programs.limits import Ending
from shared.agents.programs.run import ProgramRun
from shared.core import half_characters
from shared.core.errors import ConfigInvalid
from shared.core.validation import reason, where

_PASSED_ON = ("PATH", "LANG", "TZ")


class CommandConfig(BaseModel):
    """The agent's ``config``, checked."""

    model_config = ConfigDict(extra="forbid")

    command: list[str] = Field(min_length=1)
    env: dict[str, str] = {}
    readable: list[str] = []


class Command:
    """Runs the configured program once a turn."""

    def check(self, config: Mapping[str, Any]) -> None:
        """A config names a program, as a list of words."""
        _read(config)

    def why_not_ready(self, config: Mapping[str, Any]) -> str | None:
        """Why the program can't be started, and what to do; None where it can."""
        name = _read(config).command[0]
        if shutil.which(name) is not None or ("/" in name and not name.startswith("/")):  # in the agent's folder
            return None
        return f"its program {name!r} is not installed: install it, or name another one in its config"

    async def run(self, turn: Turn) -> AsyncGenerator[ProviderEvent, None]:
        """See the module's docstring for the input and the output."""
        try:
            config = _read(turn.config)
            command = _command(config, turn)
        except ConfigInvalid as error:
            yield Failed(f"agent {turn.agent!r}: {error}", retryable=False, code="bad_config")
            return
        try:
            async with (
                ProgramRun(
                    command, turn.limits, containment.available(turn.leash), sandboxes=turn.sandboxes
                ) as running,
                contextlib.aclosing(_converse(running, turn)) as events,
            ):
                async for event in events:
                    yield event
        except OSError as error:
            sentence = f"can't start {config.command[0]!r}: {error.strerror}"
            yield Failed(sentence, retryable=False, code="not_started")


def _read(config: Mapping[str, Any]) -> CommandConfig:
    try:
        return CommandConfig.model_validate(dict(config))
    except ValidationError as error:
        problems = "; ".join(f"{where(each)}: {reason(each)}" for each in error.errors())
        raise ConfigInvalid(f"config for provider 'command' is wrong: {problems}") from None


def _command(config: CommandConfig, turn: Turn) -> ProgramCommand:
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    environment |= {"HOME": str(turn.folder), "POSTROOM_AGENT_ID": turn.agent, **config.env}
    environment[leftover_processes.MARK] = turn.token
    readable = containment.readable_paths(config.command, config.readable, environment, turn.private)
    return ProgramCommand(config.command, turn.folder, environment, readable, session=f"{turn.agent} {turn.session}")


async def _converse(running: ProgramRun, turn: Turn) -> AsyncGenerator[ProviderEvent, None]:
    feeding = asyncio.create_task(running.write(_question(turn), close=True))
    plain: list[str] = []
    try:
        async for line in running.lines():
            event = _event(line)
            if isinstance(event, str):
                plain.append(event)
                continue
            if isinstance(event, Result):
                await running.finish()
                if text := "\n".join(plain).strip():
                    yield Text(text)
            if event is not None:
                yield event
            if isinstance(event, Result | Failed):
                return
    finally:
        feeding.cancel()
    if running.ending is not None and running.ending.word != "ended":
        yield _failed(running.ending)
    else:
        yield Result("\n".join(plain).strip() or None)


def _failed(ending: Ending) -> Failed:
    is_retryable = ending.word not in ("output_limit", "not_started")  # which another attempt would meet too
    return Failed(ending.reason, is_retryable, code=ending.failure)


def _question(turn: Turn) -> bytes:
    return json.dumps(
        {
            "agent": turn.agent,
            "session": turn.session,
            "continuation": turn.continuation,
            "instructions": turn.instructions,
            "model": turn.model,
            "attempt": turn.attempt,
            "prompt": turn.prompt,
            "messages": [
                {
                    "id": message.message_id,
                    "kind": message.kind,
                    "sender": message.sender,
                    "text": message.text,
                    "time": message.at_ms,
                    "is_context": message.is_context,
                }
                for message in turn.messages
            ],
        }
    ).encode()


def _event(line: bytes) -> ProviderEvent | str | None:
    """One line of output: an event, plain text, or None for a blank line or an unknown type."""
    text = line.decode("utf-8", "replace").rstrip("\r\n")
    try:
        found: Any = json.loads(half_characters.mend_json(line).decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return text
    if not isinstance(found, dict) or "type" not in found:
        return text
    match found["type"]:
        case "init":
            continuation = _words(found.get("continuation"))
            return Init(continuation) if continuation else None
        case "progress":
            return Progress(_words(found.get("note")))
        case "text":
            answers = found.get("answers")
            return Text(_words(found.get("text")), answers if isinstance(answers, str) else None)
        case "result":
            return Result(_words(found.get("text")) or None)
        case "error":
            wait = found.get("wait_ms")
            return Failed(
                _words(found.get("message")) or "the program reported an error",
                bool(found.get("retryable", True)),
                int(wait) if isinstance(wait, int | float) and math.isfinite(wait) else None,
                "session_lost" if found.get("code") == "session_lost" else "error",
            )
    return None


def _words(value: object) -> str:
    """The text of a field; empty where the field is missing or null."""
    return "" if value is None else str(value)


def provider() -> Provider:
    """For the registry."""
    return Command()
