"""The provider with a program in the place of codex, which writes recorded lines; the real one: ``make agents``."""

import asyncio
import contextlib
import json
import sys
from pathlib import Path

import pytest

from shared.agents.base import Acted, Attachment, Failed, Init, Progress, Result
from shared.agents.programs.limits import Limits
from shared.agents.providers.codex.provider import Codex, images
from tests.shared.agents.providers.a_turn import make_turn
from tests.shared.agents.providers.claude.claude_program import OpenDoors

EVENTS = Path(__file__).parents[4] / "events/codex"
THREAD, TURN = "01a20476-aa0e-7481-be9c-37726e8f5e7a", "01a20476-aa1d-7ea1-b662-16e9872be5aa"
SERVER = """\
import json, sys
def say(**message):
    print(json.dumps(message), flush=True)
def hear():
    line = sys.stdin.readline()
    with open({heard!r}, "a") as file:
        file.write(line)
    return json.loads(line)
for _ in range(3):
    hear()
say(id=2, result={{"thread": {{"id": {thread!r}}}}})
hear()
say(id=3, result={{"turn": {{"id": {turn!r}}}}})
say(method="item/agentMessage/delta", params={{"delta": "working"}})
"""


class Bench:
    """A folder with a program."""

    def __init__(self, folder):
        self.folder = folder
        self.heard = folder / "heard"
        self.path = folder / "codex"
        (folder / "agent").mkdir()

    def writes(self, name):
        """The program writes what codex wrote."""
        lines = str(EVENTS / f"{name}.jsonl")
        self.does(f"import sys\nsys.stdout.write(open({lines!r}).read())\nsys.stdout.flush()\nsys.stdin.read()\n")

    def serves(self, then):
        """The program begins a turn, then does this."""
        self.does(SERVER.format(heard=str(self.heard), thread=THREAD, turn=TURN) + then)

    def does(self, source):
        version = 'import sys\nif "--version" in sys.argv:\n    print("codex-cli 0.169.0")\n    raise SystemExit\n'
        self.path.write_text(f"#!{sys.executable} -IS\n{version}{source}")
        self.path.chmod(0o755)

    def turn(self, mode="app-server", idle_ms=30_000, **more):
        config = {"program": str(self.path), "mode": mode}
        limits = Limits(idle_ms=idle_ms)
        return make_turn(
            folder=self.folder / "agent", leash="off", doors=OpenDoors(), config=config, limits=limits, **more
        )

    def run(self, **more):
        async def go():
            async with asyncio.timeout(30), contextlib.aclosing(Codex().run(self.turn(**more))) as events:
                return [event async for event in events]

        return asyncio.run(go())

    @property
    def methods(self):
        return [json.loads(line).get("method") for line in self.heard.read_text().splitlines()]


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


@pytest.mark.parametrize(("mode", "name"), [("app-server", "app_server_tool"), ("exec", "exec_tool")])
def test_a_turn_tells_its_thread_first_then_what_it_did_then_its_answer(bench, mode, name):
    bench.writes(name)
    events = bench.run(mode=mode)
    assert isinstance(events[0], Init)
    assert [event for event in events if isinstance(event, Acted | Result)] == [Acted("send_message"), Result("done")]


def test_the_settings_of_exec_are_gone_with_the_turn(bench):
    bench.writes("exec_answer")
    assert bench.run(mode="exec")[-1] == Result("hi there")
    [home] = (bench.folder / "agent" / "sessions").glob("*/codex")
    assert [path.name for path in home.iterdir()] == ["config.toml"]


def test_silence_is_ended_by_the_idle_limit(bench):
    bench.serves("sys.stdin.read()\n")
    assert bench.run(idle_ms=300)[-1].code == "idle_timeout"


@pytest.mark.parametrize(
    ("then", "code"),
    [("raise SystemExit(0)", "crashed"), ("raise SystemExit('no rollout found')", "session_lost"), ("1/0", "crashed")],
)
def test_an_end_without_a_result_is_a_failure(bench, then, code):
    bench.serves(then)
    assert bench.run()[-1].code == code


def test_a_turn_that_is_stopped_is_interrupted_before_it_is_killed(bench):
    bench.serves(
        f"hear()\nsay(method='turn/completed', params={{'turn': {{'id': {TURN!r}, 'status': 'interrupted'}}}})\n"
    )

    async def go():
        async with contextlib.aclosing(Codex().run(bench.turn())) as events:
            async for event in events:
                if isinstance(event, Progress):
                    return

    asyncio.run(asyncio.wait_for(go(), 30))
    assert bench.methods[-1] == "turn/interrupt"


def test_a_turn_whose_task_is_cancelled_is_interrupted_too(bench):
    bench.serves("hear()\nsys.stdin.read()\n")

    async def go():
        heard = asyncio.Event()

        async def listen():
            async with contextlib.aclosing(Codex().run(bench.turn())) as events:
                async for event in events:
                    if isinstance(event, Progress):
                        heard.set()

        listening = asyncio.create_task(listen())
        await heard.wait()
        listening.cancel()
        await asyncio.wait([listening])

    asyncio.run(asyncio.wait_for(go(), 30))
    assert bench.methods[-1] == "turn/interrupt"


@pytest.mark.parametrize("answer", ["result={}", "error={'message': 'no active turn to steer'}"])
def test_a_running_turn_is_steered_and_says_whether_it_took_it(bench, answer):
    over = f"say(method='turn/completed', params={{'turn': {{'id': {TURN!r}, 'status': 'completed'}}}})\n"
    bench.serves(f"message = hear()\nsay(id=message['id'], {answer})\n{over}sys.stdin.read()\n")

    async def go():
        codex, steered = Codex(), []
        async with asyncio.timeout(30), contextlib.aclosing(codex.run(bench.turn())) as events:
            async for event in events:
                if isinstance(event, Progress):
                    assert codex.hears("turn_1")
                    steered.append(asyncio.create_task(codex.steer("turn_1", "also this")))
                if isinstance(event, Result | Failed):
                    break
        assert not codex.hears("turn_1")
        return [await steered[0], await codex.steer("turn_1", "too late")]

    assert asyncio.run(go()) == [answer == "result={}", False]
    assert "also this" in bench.heard.read_text()


def test_images_are_shown_to_the_model_and_other_files_are_only_named():
    kinds = ("image/png", "application/pdf", "image/webp", "application/octet-stream")
    files = tuple(Attachment(Path(f"/a/{i}"), kind, str(i), "m") for i, kind in enumerate(kinds))
    assert images(make_turn(attachments=files)) == [Path("/a/0"), Path("/a/2")]
