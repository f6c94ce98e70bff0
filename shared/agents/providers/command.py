"""Any program as an agent: one JSON object on its standard input, JSON lines on its standard output.

The agent's ``config`` is ``{"command": ["python3", "agent.py"], "env": {"NAME": "value"}}``. In::

    {"agent": …, "session": …, "continuation": … or null, "instructions": …, "model": …, "attempt": 1,
     "prompt": "<context …/>\\n<message …>…</message>",
     "messages": [{"id": …, "kind": …, "sender": …, "text": …, "time": ms, "is_context": false}]}

Out, one object a line. Lines that are no JSON objects are text; all of them together are one answer::

    {"type": "init", "continuation": "…"}      {"type": "text", "text": "…"}       {"type": "result", "text": "…"}
    {"type": "progress", "note": "…"}          {"type": "error", "message": "…", "retryable": true, "wait_ms": 1000}

Text from people goes over standard input only, never into an option. The program runs in its own process group, which
is killed when the turn ends, however it ends. When a turn or its dispatch is ended by force, processes in sessions of
their own are killed too (see ``leftover_processes``). The program's environment holds none of our settings. ``env`` is
stored in the agent's row, and so in the replica and the API: do not put a secret there.
"""

import asyncio
import contextlib
import json
import math
import os
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shared.agents import leftover_processes
from shared.agents.base import Failed, Init, Progress, Provider, ProviderEvent, Result, Text, Turn
from shared.agents.program import Program
from shared.core import half_characters
from shared.core.errors import ConfigInvalid
from shared.core.validation import reason, where

_LINE_LIMIT = 1024 * 1024  # bytes of one line
_OUTPUT_LIMIT = 8 * 1024 * 1024  # bytes of a whole run
_LAST_WORDS_S = 1.0  # after its end, to read the rest of its output from the pipe
_STDERR_TAIL = 500  # characters kept for the operator
_PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR", "TZ")


class CommandConfig(BaseModel):
    """The agent's ``config``, checked."""

    model_config = ConfigDict(extra="forbid")

    command: list[str] = Field(min_length=1)
    env: dict[str, str] = {}


class Command:
    """Runs the configured program once a turn."""

    def check(self, config: Mapping[str, Any]) -> None:
        """A config names a program, as a list of words."""
        _read(config)

    async def run(self, turn: Turn) -> AsyncGenerator[ProviderEvent, None]:
        """See the module's docstring for the input and the output."""
        try:
            config = _read(turn.config)
        except ConfigInvalid as error:
            yield Failed(f"agent {turn.agent!r}: {error}", retryable=False)
            return
        try:
            program = await _start(config, turn)
        except OSError as error:
            yield Failed(f"can't start {config.command[0]!r}: {error.strerror}", retryable=False)
            return
        tidying = asyncio.create_task(_tidy(program))
        try:
            async for event in _converse(program, turn):
                yield event
        finally:
            tidying.cancel()
            program.kill()
            program.close()
            await program.wait()


def _read(config: Mapping[str, Any]) -> CommandConfig:
    try:
        return CommandConfig.model_validate(dict(config))
    except ValidationError as error:
        problems = "; ".join(f"{where(each)}: {reason(each)}" for each in error.errors())
        raise ConfigInvalid(f"config for provider 'command' is wrong: {problems}") from None


async def _start(config: CommandConfig, turn: Turn) -> Program:
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return await Program.start(
        config.command,
        folder=turn.folder,
        environment={**environment, "POSTROOM_AGENT_ID": turn.agent, **config.env, leftover_processes.MARK: turn.token},
        line_limit=_LINE_LIMIT,
    )


async def _tidy(program: Program) -> None:
    """Close the pipes soon after the program ended, even if another process still holds them open."""
    await program.wait()
    await asyncio.sleep(_LAST_WORDS_S)
    program.close()


async def _converse(program: Program, turn: Turn) -> AsyncGenerator[ProviderEvent, None]:
    stderr = asyncio.create_task(_tail(program.stderr))
    feeding = asyncio.create_task(_feed(program.stdin, _question(turn)))
    try:
        plain: list[str] = []
        size = 0
        try:
            async for line in program.stdout:
                size += len(line)
                if size > _OUTPUT_LIMIT:
                    yield Failed(f"the program wrote more than {_OUTPUT_LIMIT} bytes", retryable=False)
                    return
                event = _event(line)
                if isinstance(event, str):
                    plain.append(event)
                    continue
                if isinstance(event, Result) and (text := "\n".join(plain).strip()):
                    yield Text(text)
                if event is not None:
                    yield event
                if isinstance(event, Result | Failed):
                    return
        except ValueError:  # asyncio's word for a line beyond the limit
            yield Failed(f"the program wrote a line of more than {_LINE_LIMIT} bytes", retryable=False)
            return
        code = await program.wait()
        if code != 0:
            how = f"ended with code {code}" if code > 0 else f"was ended by signal {-code}"
            yield Failed(f"the program {how}: {(await stderr).strip() or 'nothing on standard error'}")
            return
        yield Result("\n".join(plain).strip() or None)
    finally:
        feeding.cancel()
        stderr.cancel()
        await asyncio.gather(feeding, stderr, return_exceptions=True)


async def _feed(stdin: asyncio.StreamWriter, question: bytes) -> None:
    """Write the question. A program that does not read its input does not fail the turn."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        stdin.write(question)
        await stdin.drain()
    stdin.close()


async def _tail(stderr: asyncio.StreamReader) -> str:
    """Read standard error to its end; the last ``_STDERR_TAIL`` characters."""
    kept = b""
    while chunk := await stderr.read(4096):
        kept = (kept + chunk)[-4 * _STDERR_TAIL :]
    return kept.decode("utf-8", "replace")[-_STDERR_TAIL:]


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
            )
    return None


def _words(value: object) -> str:
    """The text of a field; empty where the field is missing or null."""
    return "" if value is None else str(value)


def provider() -> Provider:
    """For the registry."""
    return Command()
