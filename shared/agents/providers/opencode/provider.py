"""The ``opencode`` program as an agent, one run for each turn: for models of chat completions, such as local ones.

Its models and tools are behind the gateway; it holds no key. The continuation is the id of its session.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from msgspec.structs import replace

from shared.agents.base import Failed, Provider, ProviderEvent, Result, Turn
from shared.agents.programs.installed import Installed
from shared.agents.programs.run import ProgramRun
from shared.agents.providers.opencode import config as opencode_config
from shared.agents.providers.opencode import failures, launch
from shared.agents.providers.opencode.launch import OpencodeLaunch
from shared.agents.providers.opencode.lines import OpencodeAnswer, OpencodeLines
from shared.core.errors import ConfigInvalid

_LINE_LIMIT = 8 * 1024 * 1024  # bytes: an answer is one line


class Opencode:
    """Runs opencode once a turn."""

    upstream = "local"

    def check(self, config: Mapping[str, Any]) -> None:
        """See ``config.OpencodeConfig``."""
        opencode_config.read(config)

    def installed(self, config: Mapping[str, Any]) -> Installed:
        """Whether the program is here. It starts the program, the first time."""
        return launch.look(opencode_config.read(config))

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
                contextlib.aclosing(_converse(running, turn)) as events,
            ):
                async for event in events:
                    yield event
        except OSError as error:
            yield Failed(f"can't start opencode: {error.strerror}", code="not_started")


async def _prepare(turn: Turn) -> OpencodeLaunch | Failed:
    try:
        return await launch.prepare(turn)
    except ConfigInvalid as error:
        return Failed(f"agent {turn.agent!r}: {error}", retryable=False, code="bad_config")
    except OSError as error:
        reason = f"can't prepare {error.filename!r} for opencode: {error.strerror}"
        return Failed(reason, code="not_started")


async def _converse(running: ProgramRun, turn: Turn) -> AsyncGenerator[ProviderEvent, None]:
    reading = OpencodeLines(launch.continues(turn.continuation))
    feeding = asyncio.create_task(running.write(turn.prompt.encode(), close=True))
    try:
        async for line in running.lines():
            for step in reading.hear(line):
                if isinstance(step, OpencodeAnswer):
                    await running.finish()
                    yield Result(step.text or None)
                    return
                yield step
                if isinstance(step, Failed):
                    return
    finally:
        feeding.cancel()
    yield _ended(running)


def _ended(running: ProgramRun) -> Failed:
    """The program ended before it gave a result."""
    ending = running.ending
    if ending is None or ending.word == "ended":
        return Failed("opencode ended and gave no result", code="crashed")
    reason = f"opencode: {failures.plain(ending.reason)}"
    failed = Failed(reason, code=ending.failure)
    code = failures.of_text(reason) if failed.code == "crashed" else failed.code
    return failed if code == "error" else replace(failed, code=code)


def provider() -> Provider:
    """For the registry."""
    return Opencode()
