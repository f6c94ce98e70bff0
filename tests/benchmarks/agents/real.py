"""Section 7, a real program: what a turn of ``claude`` adds to the same program started by hand, on a scripted model.

Measured where ``claude`` is: in the folder that POSTROOM_TEST_AGENTS names (``make agents`` installs it), or in PATH.
"""

import asyncio
import importlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import uvloop

from shared.agents.access import ProgramAccess
from shared.agents.base import Turn
from shared.agents.providers.claude import invocation
from shared.agents.providers.claude.config import ClaudeConfig
from shared.db.roster.agents import Agent
from tests.benchmarks.agents.single import leash, turns_ms
from tests.benchmarks.harness.measure import Line, Scale, Spread, percentile, watched
from tests.benchmarks.harness.store import wire
from tests.benchmarks.harness.system import System
from tests.benchmarks.turns import Answers

_KEY = "benchmark-key-of-the-operator"
_FIRST_CHAT = 8000
_WHAT = "what a turn adds to claude on a scripted model, leash, gateway and tools included: p50"


def claude(scale: Scale) -> Iterator[Line]:
    """Turns and bare runs in turns, each in a conversation of its own."""
    folder = os.environ.get("POSTROOM_TEST_AGENTS", "")
    path = os.pathsep.join(filter(None, (folder, os.environ["PATH"])))
    program = shutil.which("claude", path=path)
    if program is None:
        yield Line(_WHAT, "not measured", "watched", beside="claude is not installed here")
        return
    count = scale.few(5, 1)
    models = importlib.import_module("tests.agents.model_api")  # at run time: mypy reads benchmarks, and no tests
    with models.serving_beside(_KEY) as api, System(scale.place("claude"), _models(path, api.url)) as system:
        chats = 1 + count * scale.rounds
        agent = Agent("real", "real", "claude", "scripted-1", "Be kind.")
        wire(system.db, [(agent, _FIRST_CHAT + number) for number in range(chats)])
        system.start("ingest", "dispatch")
        turns, bare = uvloop.run(_measure(system, scale.rounds, count, Path(program), api.url))
    alone = [percentile(each, 0.5) for each in bare]
    yield watched(
        _WHAT,
        Spread.of(percentile(each, 0.5) - by_hand for each, by_hand in zip(turns, alone, strict=True)),
        "ms",
        is_less_better=True,
        beside=f"by hand {Spread.of(alone):,.0f} ms; {count} of each in {scale.rounds} rounds; held in by {leash()}",
        reason="a second of the program's own work on two cores, with our server for its tools, varies by more",
    )


def _models(path: str, url: str) -> dict[str, str]:
    """The environment of an operator whose model is the scripted one."""
    return {"PATH": path, "POSTROOM_ANTHROPIC_BASE_URL": url, "POSTROOM_ANTHROPIC_API_KEY": _KEY}


async def _measure(
    system: System, rounds: int, count: int, program: Path, url: str
) -> tuple[list[list[float]], list[list[float]]]:
    answers = Answers(system)
    chats = 1 + count * rounds
    await turns_ms(system, answers, 1, first_chat=_FIRST_CHAT, chats=chats)
    await asyncio.to_thread(_by_hand_ms, program, url, system.folder / "by-hand")
    turns, bare = [], []
    for _ in range(rounds):
        turns.append(await turns_ms(system, answers, count, first_chat=_FIRST_CHAT, chats=chats))
        by_hand = [await asyncio.to_thread(_by_hand_ms, program, url, system.folder / "by-hand") for _ in range(count)]
        bare.append(by_hand)
    answers.close()
    return turns, bare


def _by_hand_ms(program: Path, url: str, folder: Path) -> float:
    """From the start of the program, with the words that a turn gives it, to its end. It asks the model directly."""
    folder.mkdir(exist_ok=True)
    turn = Turn("real", "scripted-1", "Be kind.", {}, folder, "s", None, "message 1", (), 1, "turn_by_hand")
    access = ProgramAccess(folder / "none.sock", url, "", "", _KEY, is_plan=False)
    command = invocation.command(program, ClaudeConfig(), turn, access)
    question = invocation.question(invocation.content(turn))
    start = time.perf_counter()
    done = subprocess.run(
        command.words, input=question, env=dict(command.environment), cwd=folder, capture_output=True, check=False
    )
    took = (time.perf_counter() - start) * 1000
    if done.returncode != 0 or b'"result"' not in done.stdout:
        raise RuntimeError(f"claude ended with {done.returncode}: {(done.stdout + done.stderr)[-500:]!r}")
    return took


LINES = (claude,)
