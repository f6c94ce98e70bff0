"""A function that runs and does not answer: what is known of it, and what to do."""

import asyncio
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from emulator.base.state import StateFolder
from emulator.system import hangs
from emulator.system.functions import Function
from infra.template.specs import FunctionSpec
from tests.liveness import freeze
from tests.shared.runtime.test_signs_of_life import LONG_MS, grow_silent


class Answers:
    """In place of the gateway's client: whether the function answers, which addresses were asked, and how long."""

    def __init__(self, is_there: bool) -> None:
        self.is_there = is_there
        self.asked: list[str] = []
        self.limits_s: list[float] = []

    async def answers(self, url: str, *, limit_s: float) -> bool:
        self.asked.append(url)
        self.limits_s.append(limit_s)
        return self.is_there


@pytest.fixture
def function() -> Iterator[Function]:
    """One whose process does nothing."""
    process = subprocess.Popen(["sleep", "600"])
    sock = socket.create_server(("127.0.0.1", 0))
    spec = FunctionSpec("deliver", port=0, timeout_ms=10_000, environment={}, secrets=(), line=1)
    current: Any = SimpleNamespace(pid=process.pid)
    yield Function(spec, sock, {}, current=current, problem=None)
    process.kill()
    process.wait()
    sock.close()


def look(function: Function, gateway: Any, folder: Path) -> None:
    state = StateFolder(folder)
    state.run.mkdir(parents=True, exist_ok=True)
    asyncio.run(hangs.look(function, gateway, state))


def test_a_process_that_is_stopped_is_named_with_the_cause_since_when_and_what_to_do(
    function: Function, tmp_path: Path
) -> None:
    assert function.current is not None
    pid = function.current.pid
    freeze(pid)
    gateway = Answers(False)
    look(function, gateway, tmp_path)
    assert function.hangs is not None
    assert function.hangs.startswith(f"its process {pid} does not answer within 1 s; it is stopped, as by SIGSTOP. Its")
    assert gateway.limits_s == [1.0]

    grow_silent(StateFolder(tmp_path).run, "deliver", LONG_MS)
    look(function, Answers(False), tmp_path)
    assert "as by SIGSTOP; it has given no sign of life for 2 d 3 h. Its log: `" in function.hangs
    assert f"fault kill deliver --state {tmp_path}" in function.hangs
    facts = function.facts()
    assert (facts["up"], facts["hangs"], facts["problem"]) == (False, True, function.hangs)

    os.kill(pid, signal.SIGCONT)
    look(function, Answers(True), tmp_path)
    assert (function.hangs, function.facts()["up"]) == (None, True)


def test_a_process_whose_event_loop_stands_still_is_named_too(function: Function, tmp_path: Path) -> None:
    gateway = Answers(False)
    look(function, gateway, tmp_path)
    assert function.hangs is not None
    assert "does not answer within 3 s. Its log: `" in function.hangs
    assert gateway.limits_s == [1.0, 2.0], "it may be busy"

    grow_silent(StateFolder(tmp_path).run, "deliver", LONG_MS)
    gateway = Answers(False)
    look(function, gateway, tmp_path)
    assert "does not answer within 1 s; it has given no sign of life for 2 d 3 h. Its log: `" in function.hangs
    assert gateway.limits_s == [1.0]


def test_a_function_that_is_down_is_not_asked_and_its_cause_stays(function: Function, tmp_path: Path) -> None:
    gateway = Answers(False)
    look(function, gateway, tmp_path)
    function.problem = "it ended with code 3 and is restarted"
    look(function, gateway, tmp_path)
    assert set(gateway.asked) == {f"http://127.0.0.1:{function.port}/healthz"}
    assert gateway.limits_s == [1.0, 2.0]
    facts = function.facts()
    assert (facts["up"], facts["hangs"], facts["problem"]) == (False, False, function.problem)
