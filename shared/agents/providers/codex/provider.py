"""The ``codex`` program of OpenAI as an agent: one app-server for each turn, or ``codex exec`` where it has none.

Its models and tools are behind the gateway; it holds no key. Its home is ``codex`` in the session's folder, so that its
threads are out of reach of other sessions. The continuation is the id of the thread.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from shared.agents import own_files
from shared.agents.access import PermissionAnswer
from shared.agents.base import Acted, Failed, Provider, ProviderEvent, Result, Turn
from shared.agents.programs.installed import Installed
from shared.agents.programs.permission_prompts import PermissionPrompts
from shared.agents.programs.run import ProgramRun
from shared.agents.providers.codex import config as codex_config
from shared.agents.providers.codex import failures, launch, program
from shared.agents.providers.codex.dialogue import (
    CodexAnswered,
    CodexAsks,
    CodexSays,
    CodexTool,
    Dialogue,
    Step,
    is_piece,
)
from shared.agents.providers.codex.exec_lines import ExecLines
from shared.agents.providers.codex.launch import CodexLaunch
from shared.core.errors import ConfigInvalid

_LINE_LIMIT = 8 * 1024 * 1024  # bytes: an answer is one line
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_LAST_WORDS_S = 0.25  # from the interruption of a turn to the kill; it takes 13 ms


class Codex:
    """Runs codex once a turn."""

    upstream = "openai"

    def __init__(self) -> None:
        self._running: dict[str, _AppServerTurn] = {}

    def installed(self, config: Mapping[str, Any]) -> Installed:
        """Whether the program is here. It starts the program, the first time."""
        return program.look(codex_config.read(config).program)

    def check(self, config: Mapping[str, Any]) -> None:
        """See ``config.CodexConfig``."""
        codex_config.read(config)

    def hears(self, turn: str) -> bool:
        """Whether the turn with the token *turn* runs over the app-server, and codex has begun it."""
        running = self._running.get(turn)
        return running is not None and running.hears

    async def steer(self, turn: str, text: str) -> bool:
        """Tell the turn that runs with the token *turn* something more, while it runs.

        Returns:
            Whether codex took it. If not, the turn is over or can't be told, and the text is to be a turn of its own.
        """
        running = self._running.get(turn)
        return False if running is None else await running.steer(text)

    async def run(self, turn: Turn) -> AsyncGenerator[ProviderEvent, None]:
        """See the module's docstring."""
        start = await _prepare(turn)
        if isinstance(start, Failed):
            yield start
            return
        try:
            async with (
                ProgramRun(
                    start.command, turn.limits, start.held, line_limit=_LINE_LIMIT, sandboxes=turn.sandboxes
                ) as running,
                contextlib.aclosing(self._converse(running, start, turn)) as events,
            ):
                async for event in events:
                    yield event
        except OSError as error:
            yield Failed(f"can't start codex: {error.strerror}", code="not_started")
        finally:
            if start.profile is not None:
                own_files.remove(turn.folder, launch.profile_file(turn.session, start.profile))

    async def _converse(
        self, running: ProgramRun, start: CodexLaunch, turn: Turn
    ) -> AsyncGenerator[ProviderEvent, None]:
        talk = _ExecTurn(running, turn) if start.profile is not None else _AppServerTurn(running, start, turn)
        if isinstance(talk, _AppServerTurn):
            self._running[turn.token] = talk
        is_over = False
        try:
            async with contextlib.aclosing(talk.events()) as events:
                async for event in events:
                    is_over = isinstance(event, Result | Failed)
                    if isinstance(event, Result):
                        await running.finish()
                    yield event
                    if is_over:
                        return
            is_over = True
            yield _ended(running)
        finally:
            self._running.pop(turn.token, None)
            await talk.close(is_over=is_over)


async def _prepare(turn: Turn) -> CodexLaunch | Failed:
    try:
        return await launch.prepare(turn)
    except ConfigInvalid as error:
        return Failed(f"agent {turn.agent!r}: {error}", retryable=False, code="bad_config")
    except OSError as error:
        return Failed(f"can't prepare {error.filename!r} for codex: {error.strerror}", code="not_started")


def images(turn: Turn) -> list[Path]:
    """The files of the messages that the model sees itself; the prompt names all files."""
    return [each.path for each in turn.attachments if each.media_type in _IMAGES]


def _ended(running: ProgramRun) -> Failed:
    """The program ended before it gave a result."""
    ending = running.ending
    if ending is None or ending.word == "ended":
        return Failed("codex ended and gave no result", code="crashed")
    return failures.of_ending(Failed(f"codex: {ending.reason}", code=ending.failure))


class _AppServerTurn:
    """A turn over the app-server."""

    def __init__(self, running: ProgramRun, start: CodexLaunch, turn: Turn) -> None:
        self._running = running
        self._dialogue = Dialogue(start.thread, launch.continues(turn.continuation), turn.prompt, images(turn))
        self._steered: dict[int, asyncio.Future[bool]] = {}
        self._prompts = PermissionPrompts(running, turn.permissions)

    async def events(self) -> AsyncGenerator[ProviderEvent, None]:
        """What happens, until the program ends."""
        await self._say(self._dialogue.begin())
        async for line in self._running.lines(is_piece):
            for step in self._dialogue.hear(line):
                if isinstance(step, CodexSays):
                    await self._say([step])
                elif isinstance(step, CodexAnswered):
                    self._settle(step)
                elif isinstance(step, CodexAsks):
                    self._prompts.begin(str(step.number), step.asked, partial(_line, step))
                elif (event := _counted(self._running, step)) is not None:
                    yield event

    @property
    def hears(self) -> bool:
        """See ``Codex.hears``."""
        return self._dialogue.runs

    async def steer(self, text: str) -> bool:
        """See ``Codex.steer``."""
        message = self._dialogue.steer(text)
        if message is None:
            return False
        taken: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._steered[message.number] = taken
        await self._say([message])
        return await taken

    async def close(self, *, is_over: bool) -> None:
        """The turn is over, or stopped: then codex is told so before it is killed, and writes that down."""
        await self._prompts.close()
        for taken in self._steered.values():
            if not taken.done():
                taken.set_result(False)
        message = None if is_over else self._dialogue.interrupt()
        if message is None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_S):
                await self._say([message])
                async for line in self._running.lines():
                    if any(isinstance(step, Result | Failed) for step in self._dialogue.hear(line)):
                        return

    def _settle(self, answered: CodexAnswered) -> None:
        taken = self._steered.pop(answered.number, None)
        if taken is not None and not taken.done():
            taken.set_result(answered.is_taken)

    async def _say(self, messages: Iterable[CodexSays]) -> None:
        await self._running.write(b"".join(message.line for message in messages))


class _ExecTurn:
    """A turn over ``codex exec``."""

    def __init__(self, running: ProgramRun, turn: Turn) -> None:
        self._running = running
        self._prompt = turn.prompt
        self._lines = ExecLines(launch.continues(turn.continuation))
        self._feeding: asyncio.Task[None] | None = None

    async def events(self) -> AsyncGenerator[ProviderEvent, None]:
        """What happens, until the program ends."""
        self._feeding = asyncio.create_task(self._running.write(self._prompt.encode(), close=True))
        async for line in self._running.lines():
            for step in self._lines.hear(line):
                if (event := _counted(self._running, step)) is not None:
                    yield event

    async def close(self, *, is_over: bool) -> None:
        """The turn is over, or stopped."""
        if self._feeding is not None:
            self._feeding.cancel()


def _line(asks: CodexAsks, answer: PermissionAnswer) -> bytes:
    return asks.answer(answer).line


def _counted(running: ProgramRun, step: Step) -> ProviderEvent | None:
    """The event of a step; while a tool call is open, another limit holds."""
    if isinstance(step, CodexTool):
        (running.tool_ended if step.is_over else running.tool_began)()
        return None if step.is_over else Acted(step.name)
    return None if isinstance(step, CodexSays | CodexAnswered | CodexAsks) else step


def provider() -> Provider:
    """For the registry."""
    return Codex()
