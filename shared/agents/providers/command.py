"""Any program as an agent: one JSON object on its standard input, JSON lines on its standard output.

The agent's ``config`` is ``{"command": ["python3", "agent.py"], "env": {"NAME": "value"}}``. In::

    {"agent": …, "session": …, "continuation": … or null, "instructions": …, "model": …, "attempt": 1,
     "prompt": "<context …/>\\n<message …>…</message>",
     "messages": [{"id": …, "kind": …, "sender": …, "text": …, "time": ms, "is_context": false}]}

Out, one object a line; a line that is no JSON object is taken as text, and all such lines together are one answer::

    {"type": "init", "continuation": "…"}      {"type": "text", "text": "…"}       {"type": "result", "text": "…"}
    {"type": "progress", "note": "…"}          {"type": "error", "message": "…", "retryable": true, "wait_ms": 1000}

What people wrote goes over standard input only, never into an option. The program runs in its own process group, which
is killed when the turn ends in whatever way (what it put into a session of its own lives on); its environment holds
nothing of ours. ``env`` stands in the agent's row, and so in the replica and the API: it is no place for a secret.
"""

import asyncio
import contextlib
import ctypes
import json
import math
import os
import signal
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shared.agents.base import Failed, Init, Progress, Provider, ProviderEvent, Result, Text, Turn
from shared.errors import ConfigInvalid

_LINE_LIMIT = 1024 * 1024  # bytes of one line
_OUTPUT_LIMIT = 8 * 1024 * 1024  # bytes of a whole run
_LAST_WORDS_S = 1.0  # what a program wrote before it ended is in the pipe, and read at once
_STDERR_TAIL = 500  # characters kept for the operator
_PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR", "TZ")
_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


class CommandConfig(BaseModel):
    """The agent's ``config``, checked."""

    model_config = ConfigDict(extra="forbid")

    command: list[str] = Field(min_length=1)
    env: dict[str, str] = {}


class Command:
    """Runs the configured program once a turn."""

    def check(self, config: Mapping[str, Any]) -> None:
        """A program must be named, as a list of words."""
        _read(config)

    async def run(self, turn: Turn) -> AsyncGenerator[ProviderEvent, None]:
        """See the module's docstring for what goes in and out."""
        try:
            config = _read(turn.config)
        except ConfigInvalid as error:
            yield Failed(f"agent {turn.agent!r}: {error}", retryable=False)
            return
        try:
            process = await _start(config, turn.folder, turn.agent)
        except OSError as error:
            yield Failed(f"can't start {config.command[0]!r}: {error.strerror}", retryable=False)
            return
        tidying = asyncio.create_task(_tidy(process))
        try:
            async for event in _converse(process, turn):
                yield event
        finally:
            tidying.cancel()
            _kill_group(process)
            _close(process)
            await process.wait()


def _read(config: Mapping[str, Any]) -> CommandConfig:
    try:
        return CommandConfig.model_validate(dict(config))
    except ValidationError as error:
        where = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        raise ConfigInvalid(f"config for provider 'command' is wrong: {where}") from None


async def _start(config: CommandConfig, folder: Path, agent: str) -> asyncio.subprocess.Process:
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return await asyncio.create_subprocess_exec(
        *config.command,
        cwd=folder,
        env={**environment, "POSTROOM_AGENT_ID": agent, **config.env},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        preexec_fn=_die_with_parent,
        limit=_LINE_LIMIT,
    )


def _die_with_parent() -> None:
    """Linux: if we are killed outright, the kernel ends the program too."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _kill_group(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


async def _tidy(process: asyncio.subprocess.Process) -> None:
    """The program's end is the end of what it started, and of its output, whoever else may hold that open."""
    await _ended(process.pid)
    _kill_group(process)
    await asyncio.sleep(_LAST_WORDS_S)
    _close(process)


async def _ended(pid: int) -> None:
    """Return when our child *pid* has ended. ``Process.wait`` of Python 3.11 also waits until its pipes are closed."""
    loop = asyncio.get_running_loop()
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:  # ended, and its exit code is taken
        return
    try:
        over = asyncio.Event()
        loop.add_reader(fd, over.set)
        await over.wait()
    finally:
        loop.remove_reader(fd)
        os.close(fd)


def _close(process: asyncio.subprocess.Process) -> None:
    """Close our ends of the pipes: a grandchild in a session of its own is out of reach, and may keep its ends."""
    process._transport.close()  # type: ignore[attr-defined]


async def _converse(process: asyncio.subprocess.Process, turn: Turn) -> AsyncGenerator[ProviderEvent, None]:
    stdin, stdout, errors = process.stdin, process.stdout, process.stderr
    if stdin is None or stdout is None or errors is None:
        raise RuntimeError("the program was started without pipes")
    stderr = asyncio.create_task(_tail(errors))
    feeding = asyncio.create_task(_feed(stdin, _question(turn)))
    try:
        plain: list[str] = []
        size = 0
        try:
            async for line in stdout:
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
        code = await process.wait()
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
    """A program that doesn't read its input is no failure of the turn."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        stdin.write(question)
        await stdin.drain()
    stdin.close()


async def _tail(stderr: asyncio.StreamReader) -> str:
    """Read standard error to its end, keeping the last of it."""
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
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(found, dict) or "type" not in found:
        return text
    match found["type"]:
        case "init":
            return Init(str(found.get("continuation", "")))
        case "progress":
            return Progress(str(found.get("note", "")))
        case "text":
            answers = found.get("answers")
            return Text(str(found.get("text", "")), answers if isinstance(answers, str) else None)
        case "result":
            said = found.get("text")
            return Result(None if said is None else str(said))
        case "error":
            wait = found.get("wait_ms")
            return Failed(
                str(found.get("message", "the program reported an error")),
                bool(found.get("retryable", True)),
                int(wait) if isinstance(wait, int | float) and math.isfinite(wait) else None,
            )
    return None


def provider() -> Provider:
    """For the registry."""
    return Command()
