"""Any program as an agent: one JSON object on its standard input, JSON lines on its standard output.

The agent's ``config`` is ``{"command": ["python3", "agent.py"], "env": {"NAME": "value"}}``. In::

    {"agent": …, "session": …, "continuation": … or null, "instructions": …, "model": …, "attempt": 1,
     "prompt": "<context …/>\\n<message …>…</message>",
     "messages": [{"id": …, "kind": …, "sender": …, "text": …, "time": ms, "is_context": false}]}

Out, one object a line. Lines that are no JSON objects are text; all of them together are one answer. An object of an
unknown type, or with a misspelt ``type``, and one that breaks off fails the turn: it is not for people::

    {"type": "init", "continuation": "…"}      {"type": "text", "text": "…"}       {"type": "result", "text": "…"}
    {"type": "progress", "note": "…"}          {"type": "error", "message": "…", "retryable": true, "wait_ms": 1000}

With ``"hears": true`` in its config, its input stays open, and what people write while it runs comes as a line::

    {"type": "message", "number": 1, "prompt": "<message …>…</message>"}

It belongs to the turn once the program says ``{"type": "heard", "number": 1}``; otherwise it waits for the next turn.

An error with ``"code": "session_lost"`` says that the program does not know the continuation: the turn runs once more
without one, and its prompt has what was said before.

Text from people goes over standard input only, never into an option. Where this host allows it, the program is on a
leash (see ``shared/agents/programs/containment.py``): it sees the home of its session in the place of its agent's
folder (``shared/agents/session_homes.py``), read-only parts of the system, files that its command names by their whole
path, the virtual environment of its interpreter, and the paths of ``"readable": ["/a/folder"]``; it has no network.
Everything that it started is killed when the turn ends, however it ends. The program's environment holds none of our
settings, and its HOME is its agent's folder, as it sees that. ``env`` is stored in the agent's row, and so in the
replica and the API: do not put a secret there.
"""

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from typing import Any, Literal

from pydantic import Field

from shared.agents import config_check, leftover_processes, session_homes
from shared.agents.access import ProgramAccess, ToolAnswer
from shared.agents.base import Acted, Failed, Provider, ProviderEvent, Result, Text, Turn
from shared.agents.host_access import HostAccess
from shared.agents.programs import containment
from shared.agents.programs.containment import Containment, GatewaySocket, ProgramCommand
from shared.agents.programs.limits import Ending
from shared.agents.programs.permission_prompts import PermissionPrompts
from shared.agents.programs.run import ProgramRun
from shared.agents.providers.command_lines import (
    Misread,
    ProgramAsks,
    ProgramCall,
    ProgramHeard,
    event_of,
    further_message,
    permission_answer,
    question,
    tool_result,
)
from shared.agents.session_homes import SharedFolder
from shared.core.errors import ConfigInvalid

_PASSED_ON = ("PATH", "LANG", "TZ")
_LINES = 'a line for people is plain text, or {"type": "text", "text": "…"}'
_PORT = 8787  # of the gateway, inside a sandbox


class CommandConfig(HostAccess):
    """The agent's ``config``, checked."""

    command: list[str] = Field(min_length=1)
    env: dict[str, str] = Field(default={})
    readable: list[str] = Field(default=[])
    shared: SharedFolder = "write"
    tools: bool = False  # over its standard input and output
    hears: bool = False  # what people write while it runs, over its standard input
    mcp: bool = False  # over HTTP
    models: Literal["anthropic", "openai", "local"] | None = None


class CommandSteering:
    """What the program of one turn is told while it runs."""

    def __init__(self, running: ProgramRun) -> None:
        self._running = running
        self._asked: dict[int, asyncio.Future[bool]] = {}
        self.is_over = False

    async def tell(self, text: str) -> bool:
        """Whether the program took it, which it may say late."""
        number = len(self._asked) + 1
        self._asked[number] = asyncio.get_running_loop().create_future()
        await self._running.write(further_message(number, text))
        return await self._asked[number]

    def hear(self, said: ProgramHeard) -> None:
        """The program took what it was told."""
        asked = self._asked.get(said.number)
        if asked is not None and not asked.done():
            asked.set_result(True)

    def close(self) -> None:
        """The turn is over: what the program has not taken waits for the next one."""
        self.is_over = True
        for asked in self._asked.values():
            if not asked.done():
                asked.set_result(False)


class Command:
    """Runs the configured program once a turn."""

    def __init__(self) -> None:
        self._steered: dict[str, CommandSteering] = {}  # by the turn's token

    def hears(self, turn: str) -> bool:
        """Whether the turn with this token runs here, with a program that asked to be told more."""
        return turn in self._steered and not self._steered[turn].is_over

    async def steer(self, turn: str, text: str) -> bool:
        """Tell the turn *text* too; whether its program took it."""
        return await self._steered[turn].tell(text) if self.hears(turn) else False

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
            held = await containment.found(turn.leash)
            command = _command(config, turn, await _access(config, turn, held))
        except ConfigInvalid as error:
            yield Failed(f"agent {turn.agent!r}: {error}", retryable=False, code="bad_config")
            return
        try:
            async with (
                ProgramRun(command, turn.limits, held, sandboxes=turn.sandboxes) as running,
                contextlib.aclosing(self._converse(running, turn, config)) as events,
            ):
                async for event in events:
                    yield event
        except OSError as error:
            sentence = f"can't start {config.command[0]!r}: {error.strerror}"
            yield Failed(sentence, code="not_started")

    async def _converse(
        self, running: ProgramRun, turn: Turn, config: CommandConfig
    ) -> AsyncGenerator[ProviderEvent, None]:
        steering = CommandSteering(running)
        if config.hears:
            self._steered[turn.token] = steering
        try:
            async with contextlib.aclosing(_converse(running, turn, config, steering)) as events:
                async for event in events:
                    if isinstance(event, Result | Failed):
                        steering.close()
                    yield event
        finally:
            self._steered.pop(turn.token, None)
            steering.close()


def _read(config: Mapping[str, Any]) -> CommandConfig:
    return config_check.checked(CommandConfig, "command", config)


async def _access(config: CommandConfig, turn: Turn, held: Containment) -> ProgramAccess | None:
    """The way to models and tools over HTTP, where the config asks for one."""
    if config.models is None and not config.mcp:
        return None
    if turn.doors is None:
        raise ConfigInvalid("no gateway is there for its program")
    return await turn.doors.open(config.models, has_sandbox=held.is_leash)


def _command(config: CommandConfig, turn: Turn, access: ProgramAccess | None) -> ProgramCommand:
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    environment |= {"HOME": str(turn.folder), "POSTROOM_AGENT_ID": turn.agent, **config.env}
    environment[leftover_processes.MARK] = turn.token
    gateway = None
    if access is not None:
        base = access.url or f"http://127.0.0.1:{_PORT}"
        gateway = GatewaySocket(access.socket, _PORT) if access.url is None else None
        environment |= {"POSTROOM_TOOLS_URL": base + access.tools, "POSTROOM_TOKEN": access.token}
        if config.models is not None:
            environment["POSTROOM_MODELS_URL"] = base + access.models
    shown = containment.readable_paths(config.command, config.readable, environment, turn.private)
    command = ProgramCommand(config.command, turn.folder, environment, shown, gateway)
    return session_homes.at_home(command, turn, config.shared)


async def _converse(
    running: ProgramRun, turn: Turn, config: CommandConfig, steering: CommandSteering
) -> AsyncGenerator[ProviderEvent, None]:
    asking = question(turn, has_tools=config.tools, hears=config.hears)
    feeding = asyncio.create_task(running.write(asking, close=not (config.tools or config.hears)))
    prompts = PermissionPrompts(running, turn.permissions)
    plain: list[str] = []
    number = 0
    try:
        async for line in running.lines():
            number += 1
            event = event_of(line)
            if isinstance(event, Misread):
                yield Failed(f"line {number} of its program's output is {event.reason} ({_LINES})", code="malformed")
                return
            if isinstance(event, str):
                plain.append(event)
            elif isinstance(event, ProgramHeard):
                steering.hear(event)
            elif isinstance(event, ProgramCall | ProgramAsks):
                yield Acted(event.name)
                if config.tools:  # else its standard input is closed
                    await _serve(running, turn, event, prompts)
            elif event is not None:
                async for each in _told(running, plain, event):
                    yield each
                if isinstance(event, Result | Failed):
                    return
    finally:
        feeding.cancel()
        await prompts.close()
    yield _ended(running.ending, plain)


async def _told(running: ProgramRun, plain: list[str], event: ProviderEvent) -> AsyncGenerator[ProviderEvent, None]:
    """The event; before a result, the lines that were no event."""
    if isinstance(event, Result):
        await running.finish()
        if text := "\n".join(plain).strip():
            yield Text(text)
    yield event


async def _serve(running: ProgramRun, turn: Turn, event: ProgramCall | ProgramAsks, prompts: PermissionPrompts) -> None:
    """Call the tool, and tell the program the answer; or ask a person, while the program goes on."""
    if isinstance(event, ProgramAsks):
        prompts.begin(str(event.id), event.asked, partial(permission_answer, event))
        return
    running.tool_began()
    try:
        if turn.tools is None:
            answer = ToolAnswer("this turn has no tools: continue without them", is_error=True)
        else:
            answer = await turn.tools.call(event.name, event.arguments, call_id=event.id)
    finally:
        running.tool_ended()
    await running.write(tool_result(event, answer))


def _ended(ending: Ending | None, plain: list[str]) -> Failed | Result:
    """The program ended, and gave no result: what it said is the answer, if it ended well."""
    if ending is not None and ending.word != "ended":
        return Failed(ending.reason, code=ending.failure)
    return Result("\n".join(plain).strip() or None)


def provider() -> Provider:
    """For the registry."""
    return Command()
