"""Claude Code as an agent: its program ``claude``, one run for each turn, on a leash.

The turn's question goes over standard input, which stays open for what the turn is told while it runs. Its session is
continued from the last turn (``--resume``). It reaches models and tools only through the gateway of dispatch. What it
has of tools besides ours its config says (``claude/config.py``); by default none.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator, Mapping
from functools import partial
from typing import Any

from shared.agents import tool_servers
from shared.agents.base import Acted, Failed, Init, Progress, Provider, ProviderEvent, Result, Text, Turn
from shared.agents.programs import containment, installed
from shared.agents.programs.containment import Containment, ProgramCommand
from shared.agents.programs.installed import Installed
from shared.agents.programs.limits import Ending
from shared.agents.programs.permission_prompts import PermissionPrompts
from shared.agents.programs.run import ProgramRun
from shared.agents.providers.claude import config as configs
from shared.agents.providers.claude import failures, invocation, stream
from shared.agents.providers.claude.config import ClaudeConfig
from shared.agents.providers.claude.steering import ClaudeSteering
from shared.agents.providers.claude.stream import (
    ClaudeAsks,
    ClaudeAsksNoMore,
    ClaudeBegan,
    ClaudeCalled,
    ClaudeCalls,
    ClaudeHeard,
    ClaudeLimit,
    ClaudeLine,
    ClaudeResult,
    ClaudeRetries,
)  # fmt: skip
from shared.core.errors import ConfigInvalid

TESTED = "2.1.330"
INSTALL = f"npm install -g @anthropic-ai/claude-code@{TESTED}"

_LINE_LIMIT = 16 * 1024 * 1024  # bytes: a whole answer is one line
_OURS = f"mcp__{invocation.SERVER}__"


class Claude:
    """Runs the program once a turn."""

    upstream = "anthropic"

    def __init__(self) -> None:
        self._steered: dict[str, ClaudeSteering] = {}  # by the turn's token

    def check(self, config: Mapping[str, Any]) -> None:
        """See ``ClaudeConfig`` for what a config may have."""
        configs.read(config)

    def installed(self, config: Mapping[str, Any]) -> Installed:
        """Whether the program is here. It starts the program, the first time."""
        return installed.look("claude", TESTED, INSTALL, configs.read(config).program)

    def hears(self, turn: str) -> bool:
        """Whether the turn with this token runs here, and can be told something now: while one of its tools runs."""
        steering = self._steered.get(turn)
        return steering is not None and steering.hears

    async def steer(self, turn: str, text: str) -> bool:
        """Tell the turn *text* too; whether the program took it."""
        steering = self._steered.get(turn)
        return False if steering is None else await steering.tell(text)

    async def run(self, turn: Turn) -> AsyncGenerator[ProviderEvent, None]:
        """One run of the program. A session that the program has lost fails as ``session_lost``."""
        held = await containment.found(turn.leash)
        try:
            config = configs.read(turn.config)
            _check_leash(config, held)
            tool_servers.check_leash(turn.tool_servers, held)
            found = await asyncio.to_thread(self.installed, turn.config)
            if found.path is None or found.why_not is not None:
                yield Failed(found.why_not or "claude is not installed", retryable=False, code="not_installed")
                return
            installed.tell(found)
            if turn.doors is None:
                raise ConfigInvalid("no gateway is there for its program")
            try:
                access = await turn.doors.open(self.upstream, has_sandbox=held.is_leash)
            except ConfigInvalid as error:
                yield Failed(str(error), retryable=False, code="auth")
                return
            command = invocation.command(found.path, config, turn, access)
        except ConfigInvalid as error:
            yield Failed(f"agent {turn.agent!r}: {error}", retryable=False, code="bad_config")
            return
        async with contextlib.aclosing(self._run(command, held, turn)) as events:
            async for event in events:
                yield event

    async def _run(self, command: ProgramCommand, held: Containment, turn: Turn) -> AsyncGenerator[ProviderEvent, None]:
        try:
            async with ProgramRun(
                command, turn.limits, held, line_limit=_LINE_LIMIT, sandboxes=turn.sandboxes
            ) as running:
                steering = self._steered[turn.token] = ClaudeSteering(running)
                async with contextlib.aclosing(_converse(running, turn, steering)) as events:
                    async for event in events:
                        yield event
        except OSError as error:
            yield Failed(f"can't start {command.words[0]!r}: {error.strerror}", code="not_started")
        finally:
            if (ended := self._steered.pop(turn.token, None)) is not None:
                ended.close()


async def _converse(running: ProgramRun, turn: Turn, steering: ClaudeSteering) -> AsyncGenerator[ProviderEvent, None]:
    """Ask, and listen until the result, and until what the turn was told has its answer too."""
    asking = invocation.question(invocation.content(turn))
    feeding = asyncio.create_task(running.write(asking))
    prompts = PermissionPrompts(running, turn.permissions)
    hearing = _Hearing(running, steering, prompts, has_tools=turn.tools is not None)
    try:
        async for line in running.lines(stream.is_partial):
            for seen in stream.read(line):
                if isinstance(seen, ClaudeHeard):
                    steering.hear(seen)
                    continue
                if isinstance(seen, ClaudeAsks) and seen.asked is None:
                    await running.write(invocation.refusal(seen.number))
                for event in hearing.hear(seen):
                    if isinstance(event, Result) and steering.owes_an_answer:
                        yield Text(event.text or "")
                        continue
                    if isinstance(event, Result):
                        steering.close()
                        await running.finish()
                    yield event
                    if isinstance(event, Result | Failed):
                        return
    finally:
        feeding.cancel()
        await prompts.close()
    yield _ended(running.ending)


class _Hearing:
    """What a line means for the turn and for the limits of its program."""

    def __init__(
        self, running: ProgramRun, steering: ClaudeSteering, prompts: PermissionPrompts, *, has_tools: bool
    ) -> None:
        self._running = running
        self._steering = steering
        self._prompts = prompts
        self._has_tools = has_tools
        self._limit: ClaudeLimit | None = None

    def hear(self, seen: ClaudeLine) -> Iterator[ProviderEvent]:
        match seen:
            case ClaudeBegan():
                yield Init(seen.session)
                if failed := self._without_tools(seen):
                    yield failed
            case ClaudeCalls() | ClaudeCalled():
                yield from self._count(seen)
            case ClaudeAsks() | ClaudeAsksNoMore():
                yield from self._ask(seen)
            case ClaudeRetries():
                yield Progress(f"the model answered {seen.status or 'nothing'}; claude asks again")
            case ClaudeLimit():
                self._limit = seen
            case ClaudeResult():
                yield failures.failed(seen, self._limit) if seen.is_error else Result(seen.text or None)

    def _count(self, seen: ClaudeCalls | ClaudeCalled) -> Iterator[ProviderEvent]:
        if isinstance(seen, ClaudeCalls):
            if seen.call not in self._steering.tools:
                self._steering.tools.add(seen.call)
                self._running.tool_began()
            yield Acted(seen.tool)
            yield Progress(f"uses {seen.tool.removeprefix(_OURS)}")
        elif seen.call in self._steering.tools:
            self._steering.tools.discard(seen.call)
            self._running.tool_ended()

    def _ask(self, seen: ClaudeAsks | ClaudeAsksNoMore) -> Iterator[ProviderEvent]:
        if isinstance(seen, ClaudeAsksNoMore):
            self._prompts.withdraw(seen.number)
        elif seen.asked is not None:
            self._prompts.begin(seen.number, seen.asked, partial(invocation.permission, seen.number))
            yield Progress(f"asks whether it may use {seen.asked.tool}")

    def _without_tools(self, began: ClaudeBegan) -> Failed | None:
        """Without our tools the program would go on, and only promise what it can't do."""
        state = began.servers.get(invocation.SERVER, "missing")
        if not self._has_tools or state == "connected":
            return None
        return Failed(f"claude could not reach the tools of its turn (state: {state})", code="tools_unavailable")


def _check_leash(config: ClaudeConfig, held: Containment) -> None:
    if config.tools != "none" and not held.is_leash:
        raise ConfigInvalid(
            f"tools {config.tools!r} need a leash, and this host has none ({held.why_no_leash}): install bubblewrap, "
            'or set "tools": "none" in the config of the agent'
        )


def _ended(ending: Ending | None) -> Failed:
    """The failure of a program that gave no result."""
    if ending is None or ending.word == "ended":
        return Failed("claude ended without a result", code="malformed")
    if code := failures.of_last_words(ending.reason):
        return Failed(ending.reason, code=code)
    return Failed(ending.reason, code=ending.failure)


def provider() -> Provider:
    """For the registry."""
    return Claude()
