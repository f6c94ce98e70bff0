"""The script of a task: it runs before the agent, in the agent's own leash, and may spare the model.

It is text for ``/bin/sh``. Its working directory and HOME are those of the agent's programs in this session (see
``session_homes.py``); it has their limits, the paths of ``readable`` in the agent's config, no network and no token.
Its standard input is empty.

An operator may give a task a script. An agent may where it runs any command of its own unasked on that leash.

What it writes reaches the agent behind the task's text. If the last line is ``{"wakeAgent": false}``, no model is
asked; ``"reason"`` beside it says why, for the history.
"""

import asyncio
import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from shared.agents import leftover_processes, registry, session_homes
from shared.agents.base import Turn
from shared.agents.programs import containment
from shared.agents.programs.containment import ProgramCommand
from shared.agents.programs.run import LINE_LIMIT, ProgramRun
from shared.core.errors import PostroomError
from shared.core.failures import FailureCode

LONGEST_S = 60
MOST_BYTES = 100_000
SPARED = "its script said that there is nothing to do"
_PASSED_ON = ("PATH", "LANG", "TZ")
_SHELL = ("/bin/sh", "-c", 'eval "$(cat)"')  # the text comes over standard input, never as an argument
_LONGEST_REASON = 200


class ScriptFailed(PostroomError):
    """A script failed; the message says how. *code*: the kind of failure, for the message's row."""

    def __init__(self, reason: str, code: FailureCode = "error") -> None:
        super().__init__(reason)
        self.code = code


class ScriptVerdict(NamedTuple):
    """What a script decided. *text*: for the agent; *why_not*: why the agent need not be asked, or None."""

    text: str = ""
    why_not: str | None = None


def why_not_planned(provider: str, config: Mapping[str, Any]) -> str | None:
    """Why an agent may plan no script, as a part of a sentence; None: it may. Pure.

    A script has all of the leash: neither a sandbox of the program nor an approver stands before it. So the agent's own
    shell must be as free. The program of ``command`` is free by itself.
    """
    if provider not in registry.PROGRAMS:
        return "you run no programs, so your tasks can't have a script"
    if provider == "command":
        return None
    if config.get("tools") != "all":
        return "you have no shell of your own that runs any command, so your tasks can't have a script"
    if config.get("ask", "beyond") not in ("never", "beyond"):
        return "an approver is asked before your commands, and nobody would be before a script"
    return None


def read(output: str) -> ScriptVerdict:
    """The verdict of what the script wrote. Pure.

    Raises:
        ScriptFailed: its last line means neither yes nor no.
    """
    lines = output.rstrip().split("\n")
    last = _object(lines[-1])
    if last is None or "wakeAgent" not in last:
        return ScriptVerdict(output.strip())
    if not isinstance(last["wakeAgent"], bool):
        raise ScriptFailed('the last line of its script must say {"wakeAgent": true} or {"wakeAgent": false}')
    if last["wakeAgent"]:
        return ScriptVerdict("\n".join(lines[:-1]).strip())
    reason = last.get("reason")
    said = f": {reason[:_LONGEST_REASON]}" if isinstance(reason, str) and reason.strip() else ""
    return ScriptVerdict(why_not=SPARED + said)


def _object(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


async def run(turn: Turn, script: str, *, longest_s: float = LONGEST_S) -> ScriptVerdict:
    """Run the script for the turn.

    Raises:
        ScriptFailed: it can't be started, fails, takes too long or writes too much; the message says which.
        ConfigInvalid: a leash is required, and there is none; or the agent's config shows what is private.
    """
    held = await containment.found(turn.leash)
    command = _command(turn)
    written = bytearray()
    try:
        async with (
            asyncio.timeout(longest_s),
            ProgramRun(command, turn.limits, held, line_limit=LINE_LIMIT, sandboxes=turn.sandboxes) as running,
        ):
            feeding = asyncio.create_task(running.write(script.encode(), close=True))
            try:
                async for line in running.lines():
                    written += line
                    if len(written) > MOST_BYTES:
                        raise ScriptFailed(_too_much(), "output_limit")
            finally:
                feeding.cancel()
            ending = running.ending
    except TimeoutError:
        reason = f"its script took longer than {longest_s:g} s: let it do less, or leave the work to the agent"
        raise ScriptFailed(reason, "turn_timeout") from None
    except OSError as error:
        raise ScriptFailed(f"its script can't be started: {error.strerror}", "not_started") from None
    if ending is None:
        raise ScriptFailed("its script was stopped")
    if ending.word != "ended":
        raise ScriptFailed(f"its script failed: {ending.reason}", ending.failure)
    return read(written.decode("utf-8", "replace"))


def _too_much() -> str:
    return f"its script wrote more than {MOST_BYTES} bytes: let it write into a file, and print the file's name"


def _command(turn: Turn) -> ProgramCommand:
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    environment |= {"HOME": str(turn.folder), "POSTROOM_AGENT_ID": turn.agent, leftover_processes.MARK: turn.token}
    shown = containment.readable_paths(_SHELL, turn.config.get("readable", ()), environment, turn.private)
    command = ProgramCommand(_SHELL, turn.folder, environment, shown)
    return session_homes.at_home(command, turn, "read" if turn.config.get("shared") == "read" else "write")
